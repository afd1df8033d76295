package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/volsim/volsim/explore/session"
)

// isPrompt reports whether a session reads from a terminal and writes to one.
func isPrompt(in io.Reader) bool {
	return in == io.Reader(os.Stdin) && os.Getenv("TERM") != "dumb" &&
		term.IsTerminal(int(os.Stdin.Fd())) && term.IsTerminal(int(os.Stdout.Fd()))
}

// An editor reads lines from a terminal.
type editor struct {
	terminal *term.Terminal
	keys     *keyReader
}

func newEditor(i *interpreter, history string) (*editor, error) {
	keys := &keyReader{in: os.Stdin}
	e := &editor{term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{keys, os.Stdout}, ""), keys}
	e.terminal.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
		if key != '\t' {
			return "", 0, false
		}
		return i.complete(line, pos, e.terminal)
	}
	lines, err := openHistory(history, e.terminal.History)
	e.terminal.History = lines
	return e, err
}

// howToEnd is the answer to an interrupt that ends nothing.
const howToEnd = "enter quit or Ctrl-D to end the session"

// read returns the next line. interrupted reports whether Ctrl-C ended it. A signal only prints
// howToEnd. The error is io.EOF after Ctrl-D.
func (e *editor) read(ctx context.Context, prompt string, signals <-chan os.Signal) (line string, interrupted bool, err error) {
	stdin := int(os.Stdin.Fd())
	before, err := term.MakeRaw(stdin)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, term.Restore(stdin, before)) }()
	if width, height, err := term.GetSize(int(os.Stdout.Fd())); err == nil && width > 0 {
		_ = e.terminal.SetSize(width, height)
	}
	e.keys.interrupted = false
	e.terminal.SetPrompt(prompt)
	type result struct {
		line string
		err  error
	}
	read := make(chan result, 1)
	go func() {
		line, err := e.terminal.ReadLine()
		read <- result{line, err}
	}()
	for {
		select {
		case r := <-read:
			if errors.Is(r.err, term.ErrPasteIndicator) {
				r.err = nil
			}
			return r.line, e.keys.interrupted, r.err
		case <-signals:
			fmt.Fprintln(e.terminal, howToEnd) // above the prompt
		case <-ctx.Done():
			return "", false, ctx.Err()
		}
	}
}

// A keyReader reads the keys of a terminal. It turns Ctrl-C into the keys that clear the line and
// enter it.
type keyReader struct {
	in          io.Reader
	pending     []byte
	interrupted bool // since the beginning of the line
}

const (
	keyCtrlC  = 3
	clearLine = "\x05\x15\r" // end of line, delete to its beginning, enter
)

// Read implements io.Reader. It returns at most one line, because the program may want to read what
// follows in another mode of the terminal.
func (k *keyReader) Read(p []byte) (int, error) {
	if len(k.pending) == 0 {
		keys := make([]byte, 256)
		n, err := k.in.Read(keys)
		if n == 0 {
			return 0, err
		}
		k.pending = keys[:n]
	}
	if at := bytes.IndexByte(k.pending, keyCtrlC); at == 0 {
		k.interrupted = true
		k.pending = append([]byte(clearLine), k.pending[1:]...)
	} else if at > 0 {
		n := copy(p, k.pending[:at])
		k.pending = k.pending[n:]
		return n, nil
	}
	n := copy(p, k.pending)
	k.pending = k.pending[n:]
	return n, nil
}

// prompt executes the lines entered at a terminal until its end. Ctrl-C ends the line or the
// running operation.
func (i *interpreter) prompt(ctx context.Context, history string) error {
	i.echoes = true
	editor, err := newEditor(i, history)
	if err != nil {
		return fmt.Errorf("session: %w", err)
	}
	signal.Reset(os.Interrupt) // it does not end the program
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	welcome(i.out, i.session)
	for {
		line, interrupted, err := editor.read(ctx, fmt.Sprintf("step %d> ", i.session.Steps()), interrupts)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, io.EOF):
			fmt.Fprintln(i.out)
			return nil
		case err != nil:
			return fmt.Errorf("session: read the terminal: %w", err)
		case interrupted:
			fmt.Fprintln(i.out, howToEnd)
			continue
		}
		if i.executeInterruptibly(ctx, line, interrupts) {
			return nil
		}
	}
}

// hintDelay is how long an operation runs before the prompt says how to end it.
const hintDelay = time.Second / 2

// executeInterruptibly executes a line until an interrupt. It reports whether the session ends.
func (i *interpreter) executeInterruptibly(ctx context.Context, line string, interrupts <-chan os.Signal) (quit bool) {
	select {
	case <-interrupts: // of an earlier line
	default:
	}
	ctx, cancel := context.WithCancel(ctx)
	var watch sync.WaitGroup
	watch.Go(func() {
		hint := time.NewTimer(hintDelay)
		defer hint.Stop()
		for {
			select {
			case <-interrupts:
				cancel()
			case <-ctx.Done():
				return
			case <-hint.C:
				fmt.Fprintln(i.out, "still running; Ctrl-C interrupts")
			}
		}
	})
	quit, _ = i.execute(ctx, line) // the error was printed
	cancel()
	watch.Wait()
	return quit
}

// welcome prints what world this is, and what to try.
func welcome(out io.Writer, s *session.Session) {
	components := s.Cluster().Components()
	fmt.Fprintf(out, "A cluster with %s (%s) and %s. Nothing runs by itself. Try:\n",
		pluralize(len(names(s, "nodes")), "node"), strings.Join(names(s, "nodes"), ", "), pluralize(len(components), "component"))
	fmt.Fprint(out, "  create claim data 64Mi    create an object, as a user does\n"+
		"  ?                         print the possible next steps\n"+
		"  step                      run the first of them; rest runs them all\n"+
		"help lists the operations, help VERB explains one. Tab completes, Ctrl-C ends a line or an operation, Ctrl-D the session.\n")
}

// A lineHistory is a history without empty lines. It may also be kept in a file.
type lineHistory struct {
	term.History
	name string // of the file; "": none
}

// openHistory adds the lines of a file, if any, to a history.
func openHistory(name string, history term.History) (*lineHistory, error) {
	if name == "" {
		return &lineHistory{history, ""}, nil
	}
	text, err := os.ReadFile(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		history.Add(strings.TrimSuffix(line, "\n"))
	}
	return &lineHistory{history, name}, nil
}

// Add appends a line to the history and the file. An error only affects later sessions.
func (h *lineHistory) Add(line string) {
	if strings.TrimSpace(line) == "" {
		return
	}
	h.History.Add(line)
	if h.name == "" {
		return
	}
	f, err := os.OpenFile(h.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintln(f, line)
	_ = f.Close()
}
