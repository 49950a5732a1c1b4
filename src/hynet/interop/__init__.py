"""Our features in other people's programs: hloc, kornia, OpenCV, hubs. One file for each."""
