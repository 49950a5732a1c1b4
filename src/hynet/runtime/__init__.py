"""Files, locks, processes, plug-ins and other things between us and the machine."""
