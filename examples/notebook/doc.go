// Package notebook shows things where a program is: in a notebook, as a picture or as formatted text below the cell; anywhere else,
// as plain text on standard output. The same lesson is a program in a terminal and the cells of a notebook.
//
//	notebook.Show(drawing)                     // an SVG in the notebook, its text in the terminal
//	notebook.Markdown("The claim is **Bound**.")
//
// The notebook is one of GoNB's, the Go kernel of Jupyter, or of volsim's own nbrun; the program knows by an environment variable
// of theirs. What is shown and what is printed appear in the order in which the program did it: before something is shown, what
// was printed has been read by the kernel, and when Show returns, the kernel has shown it. A program may end right after it.
//
// Standard output here is os.Stdout; what a program keeps in a buffer of its own it flushes before it shows something.
//
// All functions may be called by several goroutines. A program that imports this package in a notebook does not import GoNB's
// own gonbui as well: both would write to one pipe.
package notebook
