// Command umlexec runs a program as root in a User-Mode-Linux guest of its own (see package guest), or, with -native, right
// here where this machine has what the guest would be for: root and a device-mapper. It is made for
//
//	go test -exec "umlexec -native" ./...
//
// and so it passes on the working directory, the environment, the output as it comes and the exit status; the files that go
// test asks a test binary for (profiles, coverage) are written. An interrupt is passed on; who does not end of it within a few
// seconds is ended. What umlexec itself has to say it says on standard error, with the exit status 125.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/volsim/volsim/internal/guest"
)

const (
	exitFailed = 125 // the exit status of what went wrong with the guest, and not in it
	// grace is how long a program may take to end after it was asked to. "go test" kills five seconds after it asked.
	grace = 3 * time.Second
	// deadlineSlack is how long a test binary may run on after its own deadline. "go test" gives it a minute.
	deadlineSlack = 30 * time.Second
)

func main() {
	guest.Main()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are those of the command line.
type options struct {
	guest   guest.Config
	native  bool
	which   bool
	timeout time.Duration
	disks   []string // paths, or sizes of disks that are made
	program []string
}

func parse(args []string, output io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("umlexec", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.Usage = func() {
		fmt.Fprintln(output, "usage: umlexec [flags] program [arguments]\n\nRuns the program as root in a User-Mode-Linux guest.")
		flags.PrintDefaults()
	}
	flags.BoolVar(&o.native, "native", false, "run the program here, without a guest, if this is root on a machine with a device-mapper")
	flags.BoolVar(&o.which, "which", false, "run nothing: tell where a program would run; the exit status is 1 if nowhere")
	flags.DurationVar(&o.timeout, "timeout", 0, "kill the guest after so long; 0 is half a minute more than a test binary's -test.timeout")
	flags.StringVar(&o.guest.Kernel, "kernel", "", "the guest's kernel; by default linux.uml")
	verbose := flags.Bool("console", false, "show what the guest's kernel prints, on standard error")
	flags.BoolVar(&o.guest.RAID6, "raid6", false, "let the kernel prepare for RAID 6, which takes two thirds of a second")
	flags.Func("mem", "`size` of the guest's memory, as 512M or 2G; 1G by default", func(text string) (err error) {
		o.guest.Memory, err = parseSize(text)
		return err
	})
	flags.Func("disk", "`size or path` of a disk, for /dev/ubda and so on: of a size it is empty and goes with the guest; may be given up to eight times", func(text string) error {
		o.disks = append(o.disks, text)
		return nil
	})
	flags.Func("writable", "`folder` of this machine that the guest may write in; may be given several times", func(text string) error {
		o.guest.Writable = append(o.guest.Writable, text)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.program = flags.Args()
	if len(o.program) == 0 && !o.which {
		flags.Usage()
		return o, errors.New("no program to run")
	}
	if *verbose {
		o.guest.Console = os.Stderr
	}
	return o, nil
}

// run runs the command line and returns the exit status.
func run(args []string, stdout, stderr *os.File) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "umlexec:", err)
		return exitFailed
	}
	here := errors.New("a guest was asked for: no -native")
	if o.native {
		here = deviceMapper()
	}
	if o.which {
		return printWhich(o, here, stdout)
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGHUP)
	if here == nil {
		return runNative(o.program, signals, stderr)
	}
	if err := runInGuest(o, signals, stdout, stderr); err != nil {
		return status(err, stderr)
	}
	return 0
}

// printWhich tells in a line where a program would run.
func printWhich(o options, here error, stdout io.Writer) int {
	if here == nil {
		fmt.Fprintln(stdout, "on this machine: it has a device-mapper, and this is root")
		return 0
	}
	if err := guest.Probe(o.guest); err != nil {
		fmt.Fprintf(stdout, "nowhere: not on this machine (%v); and %v\n", here, err)
		return 1
	}
	fmt.Fprintf(stdout, "in User-Mode-Linux guests: not on this machine (%v)\n", here)
	return 0
}

// status is the exit status of an error, about which all is said that is not the program's own.
func status(err error, stderr io.Writer) int {
	var inside *guest.ExitError
	var outside *exec.ExitError
	switch {
	case errors.As(err, &inside):
		return inside.Code
	case errors.As(err, &outside) && outside.ExitCode() >= 0:
		return outside.ExitCode()
	}
	fmt.Fprintln(stderr, "umlexec:", err)
	return exitFailed
}

// runNative runs the program on this machine. It gets the signals; who asked knows whether it ends.
func runNative(program []string, signals <-chan os.Signal, stderr io.Writer) int {
	command := exec.Command(program[0], program[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return status(err, stderr)
	}
	go func() {
		for s := range signals {
			// It fails when the program has ended.
			_ = command.Process.Signal(s)
		}
	}()
	if err := command.Wait(); err != nil {
		return status(err, stderr)
	}
	return 0
}

// runInGuest runs the program in a guest.
func runInGuest(o options, signals <-chan os.Signal, stdout, stderr *os.File) (err error) {
	if guest.HasRaceDetector(o.program[0]) {
		return fmt.Errorf("%s has the race detector in it, which does not run in a guest: go test without -race", o.program[0])
	}
	asked := requirementsOf(o.program[1:])
	o.guest.Writable = append(o.guest.Writable, asked.writes...)
	if o.timeout == 0 && asked.timeout > 0 {
		o.timeout = asked.timeout + deadlineSlack
	}
	o.guest.Stdout, o.guest.Stderr = stdout, stderr
	if sameFile(stdout, stderr) {
		o.guest.Stderr = stdout // all comes in order
	}
	made, err := makeDisks(&o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, made.remove()) }()
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	if o.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("it ran for %v", o.timeout))
		defer cancel()
	}
	g, err := guest.Start(ctx, o.guest, o.program...)
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			g.Signal(s.(syscall.Signal))
			time.AfterFunc(grace, func() { stop(fmt.Errorf("it got %q, and did not end within %v", s, grace)) })
		}
	}()
	return g.Wait()
}

// sameFile tells whether two files are one.
func sameFile(a, b *os.File) bool {
	as, err := a.Stat()
	if err != nil {
		return false
	}
	bs, err := b.Stat()
	return err == nil && os.SameFile(as, bs)
}
