// Command umlexec runs a program as root in a User-Mode-Linux guest (see package guest). With
// -native it runs the program on this machine if that has root and a device-mapper, which are what
// the guest provides. It is made for
//
//	go test -exec "umlexec -native" ./...
//
// so it passes on the working directory, the environment, the output and the exit status, and lets
// a test binary write its profiles and coverage data. It forwards interrupts. A program that does
// not end within a few seconds of an interrupt is killed. Errors of umlexec itself go to standard
// error, with exit status 125.
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
	exitFailed = 125 // exit status for errors of the guest, as opposed to errors in it
	// graceDefault is how long a program may take to end after a signal. "go test" kills five
	// seconds after its signal.
	graceDefault = 3 * time.Second
	// deadlineSlack is how long a test binary may run after its own deadline. "go test" allows a
	// minute.
	deadlineSlack = 30 * time.Second
)

func main() {
	guest.Main()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// options are the flags of the command.
type options struct {
	guest   guest.Config
	native  bool
	which   bool
	timeout time.Duration
	grace   time.Duration
	disks   []string // paths, or sizes of disks to create
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
	flags.BoolVar(&o.native, "native", false, "run the program without a guest if this is root on a machine with a device-mapper")
	flags.BoolVar(&o.which, "which", false, "print where a program would run, without running it; exit with status 1 if nowhere")
	flags.DurationVar(&o.timeout, "timeout", 0, "kill the guest after this `duration` (default 30s more than a test binary's -test.timeout)")
	flags.DurationVar(&o.grace, "grace", graceDefault, "kill the guest if the program has not ended this `duration` after a signal")
	flags.StringVar(&o.guest.Kernel, "kernel", "", "`path` of the guest's kernel (default linux.uml)")
	verbose := flags.Bool("console", false, "print the console of the guest's kernel to standard error")
	flags.BoolVar(&o.guest.RAID6, "raid6", false, "enable RAID 6, which delays the boot by two thirds of a second")
	flags.Func("mem", "`size` of the guest's memory, such as 512M or 2G (default 1G)", func(text string) (err error) {
		o.guest.Memory, err = parseSize(text)
		return err
	})
	flags.Func("disk", "`size or path` of a disk, as /dev/ubda and so on; a disk given by size is empty and temporary; repeatable up to eight times", func(text string) error {
		o.disks = append(o.disks, text)
		return nil
	})
	flags.Func("writable", "`folder` of this machine that the guest may write to; repeatable", func(text string) error {
		o.guest.Writable = append(o.guest.Writable, text)
		return nil
	})
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.program = flags.Args()
	if len(o.program) == 0 && !o.which {
		flags.Usage()
		return o, errors.New("no program: specify one")
	}
	if *verbose {
		o.guest.Console = os.Stderr
	}
	return o, nil
}

// run executes the command line and returns the exit status.
func run(args []string, stdout, stderr *os.File) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "umlexec:", err)
		return exitFailed
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // a write to a closed pipe returns an error
	here := errors.New("-native is not set")
	if o.native {
		here = deviceMapper()
	}
	if o.which {
		return printWhich(o, here, stdout, stderr)
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

// printWhich prints where a program would run.
func printWhich(o options, here error, stdout, stderr io.Writer) int {
	where, code := "on this machine: root with a device-mapper", 0
	if here != nil {
		where = fmt.Sprintf("in User-Mode-Linux guests: not on this machine (%v)", here)
		if err := guest.Probe(o.guest); err != nil {
			where, code = fmt.Sprintf("nowhere: not on this machine (%v); and %v", here, err), 1
		}
	}
	if _, err := fmt.Fprintln(stdout, where); err != nil {
		return status(err, stderr)
	}
	return code
}

// status returns the exit status for an error, and prints errors that are not the program's own.
func status(err error, stderr io.Writer) int {
	var inside *guest.ExitError
	var outside *exec.ExitError
	switch {
	case errors.As(err, &inside):
		return inside.Code
	case errors.As(err, &outside) && outside.ExitCode() >= 0:
		return outside.ExitCode()
	case errors.Is(err, syscall.EPIPE):
		return 128 + int(syscall.SIGPIPE)
	}
	fmt.Fprintln(stderr, "umlexec:", err)
	return exitFailed
}

// runNative runs the program on this machine and forwards signals.
func runNative(program []string, signals <-chan os.Signal, stderr io.Writer) int {
	command := exec.Command(program[0], program[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := command.Start(); err != nil {
		return status(err, stderr)
	}
	go func() {
		for s := range signals {
			// Fails if the program has already ended.
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
		return fmt.Errorf("%s is built with the race detector, which does not run in a guest: use go test without -race", o.program[0])
	}
	required := requirementsOf(o.program[1:])
	o.guest.Writable = append(o.guest.Writable, required.writes...)
	if o.timeout == 0 && required.timeout > 0 {
		o.timeout = required.timeout + deadlineSlack
	}
	o.guest.Stdout, o.guest.Stderr = stdout, stderr
	if sameFile(stdout, stderr) {
		o.guest.Stderr = stdout // preserves the order of both
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
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("time limit of %v exceeded", o.timeout))
		defer cancel()
	}
	g, err := guest.Start(ctx, o.guest, o.program...)
	if err != nil {
		return err
	}
	go func() {
		for s := range signals {
			g.Signal(s.(syscall.Signal))
			time.AfterFunc(o.grace, func() { stop(fmt.Errorf("not ended within %[2]v after signal %[1]q", s, o.grace)) })
		}
	}()
	return g.Wait()
}

// sameFile reports whether two open files are the same file.
func sameFile(a, b *os.File) bool {
	as, err := a.Stat()
	if err != nil {
		return false
	}
	bs, err := b.Stat()
	return err == nil && os.SameFile(as, bs)
}
