"""HPatches' three tasks on patches (Fig. 4)."""
