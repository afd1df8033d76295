package shell

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// A virtualEntry is a file or directory that is not on the disk: of /bin, /dev and /proc.
type virtualEntry struct {
	mode    fs.FileMode
	names   []string                        // of a directory
	content func(c *instance) string        // of a file
	open    func(s *shell) (*handle, error) // of a device; nil: a file
	tool    string                          // of a program
}

// virtualTops are the names of the directories whose content is virtual.
var virtualTops = []string{"bin", "dev", "proc", "sbin", "usr"}

const deviceFileMode = fs.ModeDevice | fs.ModeCharDevice | 0o666

// virtualEntries holds all virtual entries by path, except programs.
var virtualEntries map[string]*virtualEntry

func init() {
	mounts := &virtualEntry{mode: 0o444, content: (*instance).mountTable}
	virtualEntries = map[string]*virtualEntry{
		"/proc/mounts": mounts, "/proc/self/mounts": mounts, "/proc/1/mounts": mounts,
		"/proc/uptime":    {mode: 0o444, content: (*instance).uptime},
		"/dev/null":       device(func(*shell) stream { return nullStream{} }),
		"/dev/tty":        device(func(*shell) stream { return nullStream{} }),
		"/dev/zero":       device(func(*shell) stream { return zeroStream{} }),
		"/dev/full":       device(func(*shell) stream { return fullStream{} }),
		"/dev/urandom":    device(func(s *shell) stream { return s.t.c.random }),
		"/dev/random":     device(func(s *shell) stream { return s.t.c.random }),
		"/dev/stdin":      {mode: deviceFileMode, open: duplicate(0)},
		"/dev/stdout":     {mode: deviceFileMode, open: duplicate(1)},
		"/dev/stderr":     {mode: deviceFileMode, open: duplicate(2)},
		"/dev/fd/0":       {mode: deviceFileMode, open: duplicate(0)},
		"/dev/fd/1":       {mode: deviceFileMode, open: duplicate(1)},
		"/dev/fd/2":       {mode: deviceFileMode, open: duplicate(2)},
		"/proc/self/fd/0": {mode: deviceFileMode, open: duplicate(0)},
		"/proc/self/fd/1": {mode: deviceFileMode, open: duplicate(1)},
		"/proc/self/fd/2": {mode: deviceFileMode, open: duplicate(2)},
		"/proc/1/fd/1":    {mode: deviceFileMode, open: logOf("stdout")},
		"/proc/1/fd/2":    {mode: deviceFileMode, open: logOf("stderr")},
	}
	dirs := map[string][]string{"/usr": {"bin", "sbin"}}
	for name := range virtualEntries { // any order: the names are sorted
		for dir, base := split(name); dir != "/"; dir, base = split(dir) {
			dirs[dir] = append(dirs[dir], base)
		}
	}
	programs := slices.Sorted(maps.Keys(tools))
	programs = append(programs, programBuiltins...)
	for _, name := range programs {
		entry := &virtualEntry{mode: 0o755, tool: name, content: func(*instance) string { return "busybox\n" }}
		for _, dir := range programDirs {
			virtualEntries[dir+"/"+name] = entry
		}
	}
	for _, dir := range programDirs {
		dirs[dir] = programs
	}
	for dir, names := range dirs { // any order: keys are unique
		slices.Sort(names)
		virtualEntries[dir] = &virtualEntry{mode: fs.ModeDir | 0o755, names: slices.Compact(slices.Clone(names))}
	}
}

// programDirs are the directories of programs.
var programDirs = []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin"}

func split(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	return name[:max(i, 1)], name[i+1:]
}

func device(open func(s *shell) stream) *virtualEntry {
	return &virtualEntry{mode: deviceFileMode, open: func(s *shell) (*handle, error) {
		return &handle{stream: open(s)}, nil
	}}
}

// duplicate opens a descriptor of the process again.
func duplicate(fd int) func(s *shell) (*handle, error) {
	return func(s *shell) (*handle, error) {
		h := s.fds.get(fd)
		if h == nil {
			return nil, fs.ErrNotExist
		}
		return h, nil
	}
}

// logOf opens a descriptor of process 1.
func logOf(name string) func(s *shell) (*handle, error) {
	return func(s *shell) (*handle, error) {
		return &handle{stream: &outputStream{s.t.c.log, name}}, nil
	}
}

// virtualAt returns the virtual entry at a path, and the length of the virtual directory that has the
// path. The entry is nil if there is none; the length is 0 outside of virtual directories.
func virtualAt(c *instance, name string) (*virtualEntry, int) {
	first, _, _ := strings.Cut(name[1:], "/")
	if !slices.Contains(virtualTops, first) {
		return nil, 0
	}
	return virtualEntries[name], len(first) + 1
}

// mountTable returns the content of /proc/mounts.
func (c *instance) mountTable() string {
	if c.node {
		return c.nodeMountTable()
	}
	mode := map[bool]string{false: "rw", true: "ro"}
	var b strings.Builder
	fmt.Fprintf(&b, "overlay / overlay %s,relatime 0 0\n", mode[c.spec.ReadOnly])
	b.WriteString("proc /proc proc rw,nosuid,nodev,noexec,relatime 0 0\n" +
		"tmpfs /dev tmpfs rw,nosuid,size=65536k,mode=755 0 0\n")
	for _, m := range c.spec.Mounts {
		source, fsType := c.mountSource(m.Source)
		fmt.Fprintf(&b, "%s %s %s %s 0 0\n", source, m.Path, fsType, c.mountOptions(m.Source, m.ReadOnly))
	}
	return b.String()
}

// nodeMountTable returns the content of /proc/mounts of the node.
func (c *instance) nodeMountTable() string {
	rows, err := c.runtime.cfg.FS.Mounts()
	if err != nil {
		return ""
	}
	var b strings.Builder
	b.WriteString("node-disk / ext4 rw,relatime 0 0\n")
	for _, row := range rows {
		if rest, ok := below(c.root, row.Path); ok {
			fmt.Fprintf(&b, "%s %s %s %s 0 0\n", row.Source, kubeletDir+"/"+rest, row.FSType, c.mountOptions(row.Path, row.ReadOnly))
		}
	}
	return b.String()
}

// mountOptions returns the options of the mount at a path of the node.
func (c *instance) mountOptions(at string, readOnly bool) string {
	options, err := c.runtime.cfg.FS.MountOptions(at)
	if err != nil || options == "rw" || options == "ro" {
		options = "rw,relatime"
	}
	options = strings.TrimPrefix(strings.TrimPrefix(options, "rw"), "ro")
	if readOnly {
		return "ro" + options
	}
	return "rw" + options
}

// mountSource returns the source and the type of the file system at a path of the node.
func (c *instance) mountSource(at string) (source, fsType string) {
	source, fsType = "node-disk", "ext4"
	rows, err := c.runtime.cfg.FS.Mounts()
	if err != nil {
		return source, fsType
	}
	longest := -1
	for _, row := range rows {
		if _, ok := below(row.Path, at); ok && len(row.Path) >= longest {
			longest, source, fsType = len(row.Path), row.Source, row.FSType
		}
	}
	return source, fsType
}

func (c *instance) uptime() string {
	up := c.runtime.cfg.Process.Now().Sub(c.state.StartedAt).Seconds()
	return fmt.Sprintf("%.2f %.2f\n", up, up)
}

// A randomStream is /dev/urandom of a container: its bytes depend on the pod and the container only.
type randomStream struct{ state uint64 }

func newRandomStream(seed string) *randomStream {
	sum := fnv.New64a()
	sum.Write([]byte(seed))
	return &randomStream{sum.Sum64()}
}

// next returns the next number of the sequence splitmix64.
func (r *randomStream) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *randomStream) read(_ *task, p []byte) (int, error) {
	for i := 0; i < len(p); i += 8 {
		z := r.next()
		for j := i; j < min(i+8, len(p)); j++ {
			p[j] = byte(z)
			z >>= 8
		}
	}
	return len(p), nil
}

func (r *randomStream) write(_ *task, data []byte) (int, error) { return len(data), nil }
func (r *randomStream) close(*task)                             {}
