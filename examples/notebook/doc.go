// Package notebook displays items below a notebook cell, or prints their text in a terminal.
//
//	notebook.Show(drawing)                     // an SVG in the notebook, its text in the terminal
//	notebook.Markdown("The claim is **Bound**.")
//
// With it, the same lesson runs as a program in a terminal and as the cells of a notebook. The
// notebook's kernel is GoNB, the Go kernel of Jupyter, or volsim's nbrun. The package detects it by
// an environment variable.
//
// Printed text and displayed items appear in program order: the kernel reads all printed text
// before it displays an item, and Show returns after the kernel has displayed it. A program may
// exit right after Show. Standard output means os.Stdout; flush your own buffers before Show. All
// functions are safe for concurrent use.
//
// A program that imports this package in a notebook must not import GoNB's gonbui: both would write
// to the same pipe.
package notebook
