package pluginmanager

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// Sockets are the sockets of a node. All methods may be called concurrently, and wait for nothing
// but the disk.
type Sockets interface {
	// List returns the paths of all sockets in a directory and below it, sorted. It returns none if
	// the directory does not exist. Names that begin with a dot are skipped.
	List(dir string) ([]string, error)
	// Identify returns the identity of the socket at a path, which changes whenever the socket is
	// recreated; "": no socket.
	Identify(path string) (string, error)
	// Dial returns a connection to the server that listens at a path when the connection is used.
	// It need not be closed.
	Dial(path string) (grpc.ClientConnInterface, error)
}

// hidden reports whether a name is skipped.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// Memory holds sockets in memory. The zero value is empty and ready.
type Memory struct {
	mu      sync.Mutex
	at      map[string]socketInMemory // guarded by mu; by path
	created int                       // guarded by mu
}

var _ Sockets = (*Memory)(nil)

type socketInMemory struct {
	number int
	conn   grpc.ClientConnInterface
}

// Put creates a socket at a path, or replaces the one there. Clients of the socket use conn, which
// must allow concurrent calls.
func (m *Memory) Put(path string, conn grpc.ClientConnInterface) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]socketInMemory{}
	}
	m.created++
	m.at[path] = socketInMemory{number: m.created, conn: conn}
}

// Remove removes the socket at a path, if it exists. Calls in progress continue.
func (m *Memory) Remove(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, path)
}

// List returns the paths of the sockets below a directory.
func (m *Memory) List(dir string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var paths []string
	for path := range maps.Keys(m.at) {
		rel, below := strings.CutPrefix(path, strings.TrimSuffix(dir, "/")+"/")
		if below && !slices.ContainsFunc(strings.Split(rel, "/"), hidden) {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths, nil
}

// Identify returns the identity of the socket at a path.
func (m *Memory) Identify(path string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, found := m.at[path]; found {
		return fmt.Sprint(s.number), nil
	}
	return "", nil
}

// Dial returns a connection whose calls return Unavailable while there is no socket.
func (m *Memory) Dial(path string) (grpc.ClientConnInterface, error) { return memoryConn{m, path}, nil }

type memoryConn struct {
	sockets *Memory
	path    string
}

func (c memoryConn) find() (grpc.ClientConnInterface, error) {
	c.sockets.mu.Lock()
	defer c.sockets.mu.Unlock()
	s, found := c.sockets.at[c.path]
	if !found {
		return nil, status.Errorf(codes.Unavailable, "no socket at %s", c.path)
	}
	return s.conn, nil
}

// Invoke makes a call.
func (c memoryConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := c.find()
	if err != nil {
		return err
	}
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream begins a stream.
func (c memoryConn) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	conn, err := c.find()
	if err != nil {
		return nil, err
	}
	return conn.NewStream(ctx, desc, method, opts...)
}

// Unix is the unix sockets of this machine. The zero value is ready.
type Unix struct {
	mu   sync.Mutex
	seen map[string]identifiedSocket // guarded by mu; by path
	last int                         // guarded by mu
}

var _ Sockets = (*Unix)(nil)

// An identifiedSocket is a socket as last seen by Identify.
type identifiedSocket struct {
	number int
	info   fs.FileInfo
}

// List returns the paths of the sockets below a directory.
func (u *Unix) List(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // removed meanwhile
		case err != nil:
			return err
		case path != dir && hidden(entry.Name()) && entry.IsDir():
			return fs.SkipDir
		case entry.Type()&fs.ModeSocket != 0 && !hidden(entry.Name()):
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

// Identify returns the identity of the socket at a path. It does not notice a socket that was
// recreated within one tick of the file system's clock and with the same inode.
func (u *Unix) Identify(path string) (string, error) {
	info, err := os.Stat(path)
	u.mu.Lock()
	defer u.mu.Unlock()
	if os.IsNotExist(err) || err == nil && info.Mode()&fs.ModeSocket == 0 {
		delete(u.seen, path)
		return "", nil
	}
	if err != nil {
		return "", err
	}
	s, found := u.seen[path]
	if !found || !os.SameFile(s.info, info) || !s.info.ModTime().Equal(info.ModTime()) {
		u.last++
		s = identifiedSocket{number: u.last, info: info}
		if u.seen == nil {
			u.seen = map[string]identifiedSocket{}
		}
		u.seen[path] = s
	}
	return fmt.Sprint(s.number), nil
}

// Dial returns a connection that connects for each call, as upstream does.
//
// Upstream: pkg/volume/csi newGrpcConn, pkg/kubelet/pluginmanager/operationexecutor dial (v1.36).
func (u *Unix) Dial(path string) (grpc.ClientConnInterface, error) { return unixConn(path), nil }

// The timeouts of calls.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor dialTimeoutDuration and a second for
// GetInfo, notifyTimeoutDuration; pkg/volume/csi csiTimeout (v1.36).
const (
	timeoutGetInfo = 11 * time.Second
	timeoutNotify  = 5 * time.Second
	timeoutCall    = 2 * time.Minute
)

// connectParams make a call that waits for a listener retry soon.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
	MinConnectTimeout: timeoutGetInfo,
}

// A unixConn is a connection to the server at a path.
type unixConn string

func (c unixConn) connect() (*grpc.ClientConn, error) {
	dial := func(ctx context.Context, path string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return grpc.NewClient("passthrough:///"+string(c), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(connectParams), grpc.WithContextDialer(dial))
}

// Invoke makes a call.
func (c unixConn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	conn, err := c.connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	timeout := timeoutCall
	switch method {
	case registration.Registration_GetInfo_FullMethodName:
		timeout = timeoutGetInfo
	case registration.Registration_NotifyRegistrationStatus_FullMethodName:
		timeout = timeoutNotify
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return conn.Invoke(ctx, method, args, reply, opts...)
}

// NewStream always returns Unimplemented: neither CSI nor the registration protocol has streams.
func (c unixConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "streams are not supported at %s", string(c))
}
