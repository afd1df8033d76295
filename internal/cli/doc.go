// Package cli is what the programs of this module have in common: signals, output streams and
// the exit status.
//
//	func main() { cli.Main(run) }
//
//	func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
//		s := cli.NewStreams(ctx, stdout, stderr)
//		err := work(s.Context(), s.Out)
//		return s.End("program", err)
//	}
//
// A program writes only to its Streams and need not check for errors. The first write to standard
// output that fails ends the program's context, as a signal does. The program then removes what it
// created and returns, and End reports the error. A program whose standard output is a closed pipe
// ends without a message, with the status of a process that SIGPIPE ended. An error of standard
// error is ignored, because a log must not end what it describes.
//
// A blocked reader must not prevent a program from ending. Once the context has ended, a write
// waits for a moment only, and later output is discarded.
package cli
