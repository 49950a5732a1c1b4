"""Folders of photos -> a training set in the format of PhotoTour."""
