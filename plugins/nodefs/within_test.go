package nodefs_test

import (
	"errors"
	"io/fs"
	"path"
	"syscall"
	"testing"

	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins/nodefs"
)

// withinRow is a path inside the directory "volume" below a node's root, with the expected results.
type withinRow struct {
	name    string
	prepare prepare
	inner   string
	make    error  // error of MkdirWithin; nil means success
	made    string // the directory that then exists, by its path in the volume
	bind    error  // error of BindWithin for the existing content; nil means success
	file    string // the file that is then at the target
}

// errAny stands for any error.
var errAny = errors.New("any error")

var withinRows = []withinRow{
	{name: "nothing", inner: "test/directory", made: "test/directory", bind: fs.ErrNotExist},
	{name: "all on the way to it", inner: "test/directory", made: "test", bind: fs.ErrNotExist},
	{
		name: "a directory", prepare: withFiles("test/directory/file"),
		inner: "test/directory", made: "test/directory", file: "file",
	},
	{name: "the directory itself", prepare: withFiles("file"), inner: "", file: "file"},
	{name: "the directory itself, as a dot", prepare: withFiles("file"), inner: "./.", file: "file"},
	{name: "one up", inner: "..", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin},
	{
		name: "up after all", prepare: withFiles("test/file"), inner: "test/../../..", make: nodefs.ErrNotWithin,
		bind: nodefs.ErrNotWithin,
	},
	{name: "an absolute path", inner: "/test", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin},
	{
		name: "behind a link", prepare: all(withFiles("destination/file"), withLink("destination", "test")),
		inner: "test", made: "destination", file: "file",
	},
	{
		name: "missing behind a link", prepare: all(withFiles("destination/file"), withLink("destination", "test")),
		inner: "test/directory", made: "destination/directory", bind: fs.ErrNotExist,
	},
	{
		name: "behind a cycle of links", prepare: all(
			withFiles("test1/file", "test2/file2"), withLink("../test2", "test1/dir"),
			withLink("../test1", "test2/dir"),
		),
		inner: "test1/dir/dir/dir", made: "test2", file: "file2",
	},
	{
		name: "behind a link with the whole path", prepare: func(t *testing.T, node nodefs.FS, volume string) {
			withFiles("destination/file")(t, node, volume)
			withLink(volume+"/destination", "test")(t, node, volume)
		},
		inner: "test", made: "destination", file: "file",
	},
	{
		name: "a link that leads round", prepare: withLink("test", "test"), inner: "test/directory", make: errAny,
		bind: errAny,
	},
	{
		name: "a link that leads nowhere", prepare: withLink("missing", "test"),
		inner: "test/directory", make: fs.ErrNotExist, bind: fs.ErrNotExist,
	},
	{
		name: "below a file", prepare: withFiles("test"), inner: "test/directory", make: syscall.ENOTDIR,
		bind: syscall.ENOTDIR,
	},
	{name: "a file", prepare: withFiles("test"), inner: "test", make: syscall.ENOTDIR, file: "."},
	{
		name: "behind a link up to something inside", prepare: all(withFiles("dir/x", "there/file"),
			withLink("../there", "dir/test")),
		inner: "dir/test", made: "there", file: "file",
	},
	{
		name:    "behind a link up to a missing entry",
		prepare: all(withFiles("dir/x"), withLink("../not-there", "dir/test")),
		inner:   "dir/test", make: fs.ErrNotExist, bind: fs.ErrNotExist,
	},
	{
		name: "a link out", prepare: withLink("../outside", "test"),
		inner: "test", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
	{
		name: "behind a link out", prepare: withLink("../outside", "test"),
		inner: "test/inner", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
	{
		name: "missing behind a link out", prepare: withLink("../outside", "test"),
		inner: "test/missing", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
	{
		name:    "behind a link out in the middle",
		prepare: all(withFiles("dir/x"), withLink("../../outside", "dir/test")),
		inner:   "dir/test/inner", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
	{
		name: "a link to a name with the same prefix", prepare: withLink("../volume2", "test"),
		inner: "test", make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
	{
		name: "a link to the directory above", prepare: withLink("..", "test"), inner: "test",
		make: nodefs.ErrNotWithin, bind: nodefs.ErrNotWithin,
	},
}

type prepare func(t *testing.T, node nodefs.FS, volume string)

// withFiles creates files that contain their own path in the volume.
func withFiles(files ...string) prepare {
	return func(t *testing.T, node nodefs.FS, volume string) {
		t.Helper()
		for _, f := range files {
			testcheck.NoError(t, node.MkdirAll(path.Dir(path.Join(volume, f))))
			testcheck.NoError(t, node.WriteFile(path.Join(volume, f), []byte(f)))
		}
	}
}

func withLink(target, name string) prepare {
	return func(t *testing.T, node nodefs.FS, volume string) {
		t.Helper()
		testcheck.NoError(t, node.Symlink(target, path.Join(volume, name)))
	}
}

func all(steps ...prepare) prepare {
	return func(t *testing.T, node nodefs.FS, volume string) {
		t.Helper()
		for _, step := range steps {
			step(t, node, volume)
		}
	}
}

// TestWithin runs each row on a node in memory and on a real one.
func TestWithin(t *testing.T) {
	nodes := map[string]func(t *testing.T) (nodefs.FS, string){
		"memory": func(*testing.T) (nodefs.FS, string) { return nodefs.NewMemory("/node"), "/node" },
		"real":   func(t *testing.T) (nodefs.FS, string) { return newReal(t) },
	}
	for kind, newNode := range nodes {
		for _, row := range withinRows {
			t.Run(kind+"/"+row.name, func(t *testing.T) {
				node, root := newNode(t)
				row.run(t, node, root)
			})
		}
	}
}

func (r withinRow) run(t *testing.T, node nodefs.FS, root string) {
	t.Helper()
	dirs := directories(t, node, root, "volume", "outside/inner", "volume2", "targets/directory")
	volume := dirs[0]
	testcheck.NoError(t, node.WriteFile(root+"/targets/file", nil))
	if r.prepare != nil {
		r.prepare(t, node, volume)
	}
	info, err := node.StatWithin(volume, r.inner)
	wantOutcome(t, "StatWithin", err, r.bind)
	target := root + "/targets/directory"
	if r.file == "." {
		target = root + "/targets/file"
	}
	if err == nil && info.Mode.IsDir() != (r.file != ".") {
		t.Errorf("StatWithin = %v", info.Mode)
	}
	for range 2 { // the second call changes nothing
		wantOutcome(t, "BindWithin", node.BindWithin(volume, r.inner, target), r.bind)
	}
	wantMounts(t, node, map[bool]int{true: 1, false: 0}[r.bind == nil])
	if r.bind == nil {
		if there, err := node.Exists(path.Join(target, r.file)); !there || err != nil {
			t.Errorf("Exists of %s at the target = %v, %v", r.file, there, err)
		}
		testcheck.NoError(t, node.Unmount(target))
	}
	const mode = fs.ModeDir | fs.ModeSetgid | fs.ModeSticky | 0o777
	wantOutcome(t, "MkdirWithin", node.MkdirWithin(volume, r.inner, mode), r.make)
	if r.made != "" && errors.Is(r.bind, fs.ErrNotExist) {
		wantInfo(t, node, path.Join(volume, r.made), nodefs.Info{Mode: mode})
	} else if r.made != "" {
		wantInfo(t, node, path.Join(volume, r.made), nodefs.Info{Mode: fs.ModeDir | 0o750})
	}
	if names, err := node.ReadDir(root + "/outside"); err != nil || len(names) != 1 {
		t.Errorf("outside there are %v, %v", names, err)
	}
}

func wantOutcome(t *testing.T, call string, got, want error) {
	t.Helper()
	if (got == nil) != (want == nil) || want != nil && want != errAny && !errors.Is(got, want) {
		t.Errorf("%s gives %v, want %v", call, got, want)
	}
}

func wantMounts(t *testing.T, node nodefs.FS, want int) {
	t.Helper()
	mounts, err := node.Mounts()
	testcheck.NoError(t, err)
	if len(mounts) != want {
		t.Errorf("mounted are %+v, want %d", mounts, want)
	}
}

func partsAreBound(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/part", "source/other", "volume", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[2], false))
	testcheck.NoError(t, node.WriteFile(root+"/file", nil))
	testcheck.NoError(t, node.BindWithin(dirs[2], "part", dirs[3]))
	testcheck.NoError(t, node.WriteFile(dirs[3]+"/f", []byte("through the part")))
	wantContent(t, node, dirs[0]+"/f", "through the part")
	wantError(t, node.BindWithin(dirs[2], "other", dirs[3]), nodefs.ErrMounted)
	wantError(t, node.BindWithin(dirs[2], "part/f", dirs[3]), nodefs.ErrMounted)
	wantError(t, node.BindWithin(dirs[2], "part", root+"/missing"), fs.ErrNotExist)
	wantError(t, node.BindWithin(dirs[2], "part", root+"/file"), syscall.ENOTDIR)
	wantError(t, node.BindWithin(dirs[2], "part", "/elsewhere"), nodefs.ErrOutside)
	wantError(t, node.BindWithin("/elsewhere", "part", dirs[3]), nodefs.ErrOutside)
	wantError(t, node.MkdirWithin("/elsewhere", "part", 0o750), nodefs.ErrOutside)
	testcheck.NoError(t, node.BindWithin(dirs[2], "part/f", root+"/file"))
	wantContent(t, node, root+"/file", "through the part")
	testcheck.NoError(t, node.BindWithin(dirs[2], "part", dirs[3]))
	testcheck.NoError(t, node.Unmount(dirs[2])) // although a part of it stays mounted
	wantContent(t, node, dirs[3]+"/f", "through the part")
	wantMounts(t, node, 2)
}

func partsOfReadOnly(t *testing.T, node nodefs.FS, root string) {
	dirs := directories(t, node, root, "source/part", "volume", "target")
	testcheck.NoError(t, node.BindMount(root+"/source", dirs[1], true))
	wantError(t, node.MkdirWithin(dirs[1], "new", 0o750), nodefs.ErrReadOnly)
	testcheck.NoError(t, node.BindWithin(dirs[1], "part", dirs[2]))
	wantError(t, node.WriteFile(dirs[2]+"/f", nil), nodefs.ErrReadOnly)
}
