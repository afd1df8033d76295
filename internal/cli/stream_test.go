package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

var errDisk = &os.PathError{Op: "write", Path: "/dev/stdout", Err: errors.New("disk full")}

// TestEnd checks the status and the message for each way in which a command can end.
func TestEnd(t *testing.T) {
	t.Parallel()
	closed := &os.PathError{Op: "write", Path: "/dev/stdout", Err: syscall.EPIPE}
	for _, tt := range []struct {
		name   string
		write  error // of standard output
		signal syscall.Signal
		err    error
		status int
		text   string
	}{
		{"success", nil, 0, nil, 0, ""},
		{"failure", nil, 0, errors.New("no disk"), 1, "p: no disk\n"},
		{"found failure", nil, 0, Status(1), 1, ""},
		{"usage", nil, 0, fmt.Errorf("a: %w", UsageError{errors.New("b")}), 2, "p: a: b\n"},
		{"signal", nil, syscall.SIGINT, context.Canceled, 130, "p: interrupted\n"},
		{"signal, returned as the cause", nil, syscall.SIGTERM, fmt.Errorf("lock: %w", signalError{syscall.SIGTERM}), 143, "p: interrupted: lock: signal: terminated\n"},
		{"signal, with a message", nil, syscall.SIGTERM, Interrupted("all is removed"), 143, "p: all is removed\n"},
		{"signal, silently", nil, syscall.SIGHUP, Interrupted(""), 129, ""},
		{"signal that came too late", nil, syscall.SIGINT, nil, 0, ""},
		{"signal, and a failure to clean up", nil, syscall.SIGINT, errors.New("cannot unmount"), 1, "p: cannot unmount\n"},
		{"timeout without a signal", nil, 0, fmt.Errorf("wait: %w", context.Canceled), 1, "p: wait: context canceled\n"},
		{"closed pipe", closed, 0, nil, 141, ""},
		{"closed pipe, as the command's error", closed, 0, fmt.Errorf("standard output: %w", syscall.EPIPE), 1, "p: standard output: broken pipe\n"},
		{"closed pipe, noticed by the command", closed, 0, Interrupted("all is removed"), 141, ""},
		{"closed pipe, and a failure", closed, 0, Status(1), 1, ""},
		{"full disk", errDisk, 0, nil, 1, "p: standard output: disk full\n"},
		{"full disk, noticed by the command", errDisk, 0, context.Canceled, 1, "p: standard output: disk full\n"},
		{"full disk, and a found failure", errDisk, 0, Status(1), 1, "p: standard output: disk full\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, end := context.WithCancelCause(t.Context())
			defer end(nil)
			var errs strings.Builder
			s := NewStreams(ctx, writer(func([]byte) (int, error) { return 0, tt.write }), &errs)
			fmt.Fprint(s.Out, "text")
			if ended := s.Context().Err() != nil; ended != (tt.write != nil) {
				t.Errorf("context ended: %t", ended)
			}
			if tt.signal != 0 {
				end(signalError{tt.signal})
			}
			if status := s.End("p", tt.err); status != tt.status || errs.String() != tt.text {
				t.Errorf("status %d, %q; want %d, %q", status, errs.String(), tt.status, tt.text)
			}
		})
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestCommandsReturnTheErrorOfAWrite checks that an error returned from a write is recognized.
func TestCommandsReturnTheErrorOfAWrite(t *testing.T) {
	t.Parallel()
	s := NewStreams(t.Context(), writer(func([]byte) (int, error) { return 0, syscall.EPIPE }), io.Discard)
	_, err := fmt.Fprint(s.Out, "text")
	if _, again := fmt.Fprint(s.Out, "text"); !errors.Is(again, err) || err == nil {
		t.Errorf("errors %v, then %v", err, again)
	}
	if status := s.End("p", fmt.Errorf("print: %w", err)); status != 141 {
		t.Errorf("status %d, want 141", status)
	}
}

// TestBlockedReaderDoesNotKeepAProgram writes to a pipe that is not read. Standard error fails, which has no effect.
func TestBlockedReaderDoesNotKeepAProgram(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancelCause(t.Context())
	defer end(nil)
	reads, writes := io.Pipe()
	defer reads.Close()
	s := NewStreams(ctx, writes, writer(func([]byte) (int, error) { return 0, errDisk }))
	fmt.Fprint(s.Err, "lost")
	if s.Context().Err() != nil {
		t.Error("standard error ended the program")
	}
	end(signalError{syscall.SIGTERM})
	for range 100 { // the first write waits, the others do not
		fmt.Fprint(s.Out, "text")
	}
	if status := s.End("p", s.Context().Err()); status != 143 {
		t.Errorf("status %d, want 143", status)
	}
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link, taken := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "taken")
	if err := errors.Join(os.WriteFile(file, []byte("before"), 0o666), os.Symlink("file", link), os.Mkdir(taken, 0o700)); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(file, 1000, 1001); err != nil {
			t.Fatal(err)
		}
	}
	before, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(link, []byte("after"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	was, is := before.Sys().(*syscall.Stat_t), info.Sys().(*syscall.Stat_t)
	if was.Uid != is.Uid || was.Gid != is.Gid {
		t.Errorf("owner %d:%d, before %d:%d", is.Uid, is.Gid, was.Uid, was.Gid)
	}
	if text, err := os.ReadFile(link); err != nil || string(text) != "after" {
		t.Errorf("content %q, %v", text, err)
	}
	if err := WriteFile(taken, []byte("x"), 0o600); err == nil {
		t.Error("a directory was overwritten")
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 3 {
		t.Errorf("files %v, %v; want three", files, err)
	}
}
