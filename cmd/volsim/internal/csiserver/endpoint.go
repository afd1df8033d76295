package csiserver

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// dialTimeout is how long somebody who listens at a socket has to take a connection.
const dialTimeout = 2 * time.Second

// pathLengthMax is the length of a unix socket's path that every Linux takes.
const pathLengthMax = 107

// SocketPath is the path of an endpoint as CSI writes it: unix:///run/csi.sock,
// unix:/run/csi.sock, or the path alone.
func SocketPath(endpoint string) (string, error) {
	path := endpoint
	if rest, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		path = strings.TrimPrefix(rest, "//")
	}
	switch {
	case !filepath.IsAbs(path) || strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("endpoint %q: want the absolute path of a unix socket, such as unix:///run/csi/csi.sock", endpoint)
	case len(path) > pathLengthMax:
		return "", fmt.Errorf("endpoint %q: a socket's path has at most %d bytes, this one has %d", endpoint, pathLengthMax, len(path))
	}
	return filepath.Clean(path), nil
}

// listen listens at a socket that its owner alone may connect to, in the place of
// one that was left there and at which nobody answers. It makes the directory.
func listen(path string) (net.Listener, error) {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, fmt.Errorf("make the directory of socket %s: %w", path, err)
	}
	unlock, err := lockWaiting(directory)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen at %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStale removes a socket at which nobody answers.
func removeStale(path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s is there and no socket: remove it, or choose another endpoint", path)
	}
	conn, err := net.DialTimeout("unix", path, dialTimeout)
	if err == nil {
		return errors.Join(fmt.Errorf("somebody serves at %s already: stop that one, or choose another endpoint", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("find out whether somebody serves at %s: %w", path, err)
	}
	return os.Remove(path)
}
