"""What levee reaches, row by row, next to its peers in the same run: `tools/dev scoreboard`."""
