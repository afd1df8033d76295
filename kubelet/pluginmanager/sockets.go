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

// Sockets are those of a node. All methods may be called concurrently, and wait for nobody but the disk.
type Sockets interface {
	// List is the paths of all sockets in a directory and in those below it, sorted; none where there is no such directory. What
	// has a name that begins with a dot is left out.
	List(dir string) ([]string, error)
	// Identify tells which socket is at a path: something else for each that is made there, "" for none.
	Identify(path string) (string, error)
	// Dial is a connection to whoever answers at a path when it is used. It has nothing that needs to be closed.
	Dial(path string) (grpc.ClientConnInterface, error)
}

// hidden tells whether a name is to be passed over.
func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// Memory is sockets in memory. The zero value has none.
type Memory struct {
	mu   sync.Mutex
	at   map[string]socketInMemory // guarded by mu; by path
	made int                       // guarded by mu
}

var _ Sockets = (*Memory)(nil)

type socketInMemory struct {
	number int
	conn   grpc.ClientConnInterface
}

// Put makes a socket at a path, in the place of one that may be there. Who uses it uses the connection, which must be good for
// concurrent use.
func (m *Memory) Put(path string, conn grpc.ClientConnInterface) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]socketInMemory{}
	}
	m.made++
	m.at[path] = socketInMemory{number: m.made, conn: conn}
}

// Remove takes the socket at a path away, if there is one. Calls under way go on.
func (m *Memory) Remove(path string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.at, path)
}

// List is the paths of the sockets below a directory.
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

// Identify tells which socket is at a path.
func (m *Memory) Identify(path string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s, there := m.at[path]; there {
		return fmt.Sprint(s.number), nil
	}
	return "", nil
}

// Dial is a connection whose calls are Unavailable where there is no socket.
func (m *Memory) Dial(path string) (grpc.ClientConnInterface, error) { return memoryConn{m, path}, nil }

type memoryConn struct {
	sockets *Memory
	path    string
}

func (c memoryConn) find() (grpc.ClientConnInterface, error) {
	c.sockets.mu.Lock()
	defer c.sockets.mu.Unlock()
	s, there := c.sockets.at[c.path]
	if !there {
		return nil, status.Errorf(codes.Unavailable, "nobody answers at %s", c.path)
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
func (c memoryConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
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

// identifiedSocket is a socket as it was when it was looked at last.
type identifiedSocket struct {
	number int
	info   fs.FileInfo
}

// List is the paths of the sockets below a directory.
func (u *Unix) List(dir string) ([]string, error) {
	var paths []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case os.IsNotExist(err):
			return nil // it is gone by now
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

// Identify tells which socket is at a path. One that is made anew within the same tick of the file system's clock, and in the same
// inode, is taken for the one that was there.
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
	s, there := u.seen[path]
	if !there || !os.SameFile(s.info, info) || !s.info.ModTime().Equal(info.ModTime()) {
		u.last++
		s = identifiedSocket{number: u.last, info: info}
		if u.seen == nil {
			u.seen = map[string]identifiedSocket{}
		}
		u.seen[path] = s
	}
	return fmt.Sprint(s.number), nil
}

// Dial is a connection that is made for each call, as upstream does.
//
// Upstream: pkg/volume/csi newGrpcConn, pkg/kubelet/pluginmanager/operationexecutor dial (v1.36).
func (u *Unix) Dial(path string) (grpc.ClientConnInterface, error) { return unixConn(path), nil }

// How long a call may take.
//
// Upstream: pkg/kubelet/pluginmanager/operationexecutor dialTimeoutDuration and a second for GetInfo, notifyTimeoutDuration;
// pkg/volume/csi csiTimeout (v1.36).
const (
	timeoutGetInfo = 11 * time.Second
	timeoutNotify  = 5 * time.Second
	timeoutCall    = 2 * time.Minute
)

// connectParams is how soon a call that waits for the socket to be listened at tries again.
var connectParams = grpc.ConnectParams{
	Backoff:           backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.6, MaxDelay: time.Second},
	MinConnectTimeout: timeoutGetInfo,
}

// unixConn is whoever answers at a path.
type unixConn string

func (c unixConn) connect() (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+string(c), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(connectParams), grpc.WithContextDialer(func(ctx context.Context, path string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}))
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

// NewStream is not offered: neither CSI's nor the registration's services have one.
func (c unixConn) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Errorf(codes.Unimplemented, "streams are not offered at %s", string(c))
}
