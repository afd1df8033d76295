package csiserver

import (
	"context"
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

// dialTimeout is how long a server on an existing socket may take to accept a connection.
const dialTimeout = 2 * time.Second

// pathLengthMax is the longest socket path that Linux accepts.
const pathLengthMax = 107

// SocketPath returns the path of a CSI endpoint: unix:///run/csi.sock, unix:/run/csi.sock, or the
// path alone.
func SocketPath(endpoint string) (string, error) {
	path := endpoint
	if rest, ok := strings.CutPrefix(endpoint, "unix:"); ok {
		path = strings.TrimPrefix(rest, "//")
	}
	switch {
	case !filepath.IsAbs(path) || strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("invalid endpoint %q: want the absolute path of a unix socket, such as unix:///run/csi/csi.sock", endpoint)
	case len(path) > pathLengthMax:
		return "", fmt.Errorf("invalid endpoint %q: want a path of at most %d bytes, got %d", endpoint, pathLengthMax, len(path))
	}
	return filepath.Clean(path), nil
}

// listen listens on a socket with mode 0600. It creates the directory and replaces a stale socket.
func listen(ctx context.Context, path string) (net.Listener, error) {
	directory := filepath.Dir(path)
	if err := os.MkdirAll(directory, 0o750); err != nil {
		return nil, fmt.Errorf("create directory of socket %s: %w", path, err)
	}
	unlock, err := lockSockets(ctx, directory)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	return listener, nil
}

// removeStale removes a socket without a server.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode()&fs.ModeSocket == 0:
		return fmt.Errorf("%s exists and is not a socket: remove it, or choose another endpoint", path)
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(fmt.Errorf("socket %s is in use: stop its server, or choose another endpoint", path), conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("check for a server on %s: %w", path, err)
	}
	return os.Remove(path)
}
