package podfiles_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/podfiles"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
)

// A keySource makes a volume of an object with keys, by items.
type keySource struct {
	name   string
	binary bool // it has binary data besides
	volume func(items []corev1.KeyToPath, mode *int32, optional *bool) corev1.VolumeSource
}

var object = corev1.LocalObjectReference{Name: "object"}

var keySources = []keySource{
	{"configMap", true, func(items []corev1.KeyToPath, mode *int32, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: object, Items: items, DefaultMode: mode, Optional: optional,
		}}
	}},
	{"secret", false, func(items []corev1.KeyToPath, mode *int32, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: object.Name, Items: items, DefaultMode: mode, Optional: optional,
		}}
	}},
	{"projected configMap", true, func(items []corev1.KeyToPath, mode *int32, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: object, Items: items, Optional: optional}},
		}}}
	}},
	{"projected secret", false, func(items []corev1.KeyToPath, mode *int32, optional *bool) corev1.VolumeSource {
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: []corev1.VolumeProjection{
			{Secret: &corev1.SecretProjection{LocalObjectReference: object, Items: items, Optional: optional}},
		}}}
	}},
}

// TestKeysBecomeFiles has upstream's rows of TestMakePayload, of config maps and of secrets, and of
// TestCollectDataWithConfigMap and TestCollectDataWithSecret.
func TestKeysBecomeFiles(t *testing.T) {
	item := func(key, path string, mode ...int32) corev1.KeyToPath {
		to := corev1.KeyToPath{Key: key, Path: path}
		if len(mode) > 0 {
			to.Mode = &mode[0]
		}
		return to
	}
	for _, tt := range []struct {
		name     string
		data     string // keys, of the same content
		binary   string
		items    []corev1.KeyToPath
		mode     int32 // 0: 0644
		optional bool
		want     string // paths with content and mode; "" for an error
	}{
		{name: "no overrides", data: "foo bar", want: "bar=bar:644 foo=foo:644"},
		{name: "no overrides binary data", binary: "foo bar", want: "bar=bar:644 foo=foo:644"},
		{name: "no overrides mixed data", data: "foo", binary: "bar", want: "bar=bar:644 foo=foo:644"},
		{
			name: "basic 1", data: "foo bar", items: []corev1.KeyToPath{item("foo", "path/to/foo.txt")},
			want: "path/to/foo.txt=foo:644",
		},
		{
			name: "subdirs", data: "foo bar", items: []corev1.KeyToPath{item("foo", "path/to/1/2/3/foo.txt")},
			want: "path/to/1/2/3/foo.txt=foo:644",
		},
		{
			name: "subdirs 2", data: "foo bar", items: []corev1.KeyToPath{item("foo", "path/to/1/2/3/foo.txt")},
			want: "path/to/1/2/3/foo.txt=foo:644",
		},
		{
			name: "subdirs 3", data: "foo bar",
			items: []corev1.KeyToPath{item("foo", "path/to/1/2/3/foo.txt"), item("bar", "another/path/to/the/esteemed/bar.bin")},
			want:  "another/path/to/the/esteemed/bar.bin=bar:644 path/to/1/2/3/foo.txt=foo:644",
		},
		{name: "non existent key", data: "foo bar", items: []corev1.KeyToPath{item("zab", "path/to/foo.txt")}},
		{
			name: "mapping with Mode", data: "foo bar",
			items: []corev1.KeyToPath{item("foo", "foo.txt", 0o400), item("bar", "bar.bin", 0o400)},
			want:  "bar.bin=bar:400 foo.txt=foo:400",
		},
		{
			name: "mapping with defaultMode", data: "foo bar", mode: 0o600,
			items: []corev1.KeyToPath{item("foo", "foo.txt"), item("bar", "bar.bin")}, want: "bar.bin=bar:600 foo.txt=foo:600",
		},
		{
			name: "optional non existent key", data: "foo bar", optional: true,
			items: []corev1.KeyToPath{item("zab", "path/to/foo.txt")}, want: "-",
		},
	} {
		for _, from := range keySources {
			if tt.binary != "" && !from.binary {
				continue
			}
			t.Run(from.name+"/"+tt.name, func(t *testing.T) {
				w := newWorld(t)
				w.createObject(strings.Fields(tt.data), strings.Fields(tt.binary))
				mode := tt.mode
				if mode == 0 {
					mode = 0o644
				}
				spec := &plugins.Spec{Volume: &corev1.Volume{
					Name: "v", VolumeSource: from.volume(tt.items, &mode, ptr.To(tt.optional)),
				}}
				err := w.setUp(w.disk, spec, plugins.MountOptions{})
				if (err == nil) != (tt.want != "") {
					t.Fatalf("SetUp: %v", err)
				}
				if dir := w.volumeDir(); dir != "" {
					testcheck.Equal(t, "files", strings.TrimPrefix(tt.want, "-"), w.visible(dir))
				}
			})
		}
	}
}

// createObject creates a config map and a secret with keys that are also their values.
func (w *world) createObject(keys, binary []string) {
	w.Helper()
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: object.Name}, Data: map[string]string{}, BinaryData: map[string][]byte{},
	}
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: object.Name}, Data: map[string][]byte{}}
	for _, key := range keys {
		cm.Data[key], s.Data[key] = key, []byte(key)
	}
	for _, key := range binary {
		cm.BinaryData[key] = []byte(key)
	}
	core := w.server.Client(sim.DirectCaller()).CoreV1()
	_, err := core.ConfigMaps("default").Create(context.Background(), cm, metav1.CreateOptions{})
	testcheck.NoError(w, err)
	_, err = core.Secrets("default").Create(context.Background(), s, metav1.CreateOptions{})
	testcheck.NoError(w, err)
}

// volumeDir returns the directory of the pod's only volume; "" if there is none.
func (w *world) volumeDir() string {
	dir := root + "/pods/uid-1/volumes"
	for range 2 {
		names, err := w.disk.ReadDir(dir)
		if err != nil || len(names) != 1 {
			return ""
		}
		dir = path.Join(dir, names[0])
	}
	return dir
}

// visible returns the files of a volume that a container sees, with content and mode, sorted.
func (w *world) visible(dir string) string {
	w.Helper()
	var found []string
	names, err := w.disk.ReadDir(dir)
	testcheck.NoError(w, err)
	current, err := w.disk.Readlink(dir + "/..data")
	testcheck.NoError(w, err)
	var visit func(name string)
	visit = func(name string) {
		at := path.Join(dir, current, name)
		info, err := w.disk.Stat(at)
		testcheck.NoError(w, err)
		if !info.Mode.IsDir() {
			data, err := w.disk.ReadFile(at)
			testcheck.NoError(w, err)
			found = append(found, fmt.Sprintf("%s=%s:%o", name, data, info.Mode.Perm()))
			return
		}
		inner, err := w.disk.ReadDir(at)
		testcheck.NoError(w, err)
		for _, each := range inner {
			visit(path.Join(name, each))
		}
	}
	for _, name := range names {
		if strings.HasPrefix(name, "..") {
			continue
		}
		link, err := w.disk.Readlink(path.Join(dir, name))
		testcheck.NoError(w, err)
		testcheck.Equal(w, "link", "..data/"+name, link)
		visit(name)
	}
	return strings.Join(found, " ")
}

// payload parses "path=content:mode …"; the default mode is 0644.
func payload(text string) podfiles.Payload {
	files := podfiles.Payload{}
	for _, word := range strings.Fields(text) {
		name, rest, _ := strings.Cut(word, "=")
		data, octal, _ := strings.Cut(rest, ":")
		mode, err := strconv.ParseUint(octal, 8, 32)
		if err != nil {
			mode = 0o644
		}
		files[name] = podfiles.File{Data: []byte(data), Mode: fs.FileMode(mode)}
	}
	return files
}

// TestWritePayloads has upstream's rows of TestWriteOnce, TestUpdate, TestMultipleUpdates,
// TestPathsToRemove, TestCreateUserVisibleFiles and TestValidatePayload: one payload after the other.
func TestWritePayloads(t *testing.T) {
	for _, tt := range []struct {
		name     string
		payloads []string
		want     []string // what is visible after each; "-": the payload is rejected, nil: as written
	}{
		{"once/invalid payload 1", []string{"foo=1 ..bar=2 binary.bin=3"}, []string{"-"}},
		{"once/invalid payload 2", []string{"foo/../bar=1"}, []string{"-"}},
		{"once/basic 1", []string{"bar=2:644 foo=1:644"}, nil},
		{"once/basic 2", []string{".binary.bin=2:644 binary.bin=1:644"}, nil},
		{"once/basic mode 1", []string{"bar=2:400 foo=1:777"}, nil},
		{"once/dotfiles", []string{".dotfile=1:644 .dotfile.file=3:644 foo=2:644"}, nil},
		{"once/dotfiles mode", []string{".dotfile=1:440 .dotfile.file=3:666 foo=2:644"}, nil},
		{"once/subdirectories 1", []string{"bar/zab.txt=2:644 foo/bar.txt=1:644"}, nil},
		{"once/subdirectories mode 1", []string{"bar/zab.txt=2:644 foo/bar.txt=1:400"}, nil},
		{
			"once/subdirectories 2",
			[]string{"foo//bar.txt=1:644 bar///bar/zab.txt=2:644"},
			[]string{"bar/bar/zab.txt=2:644 foo/bar.txt=1:644"},
		},
		{
			"once/subdirectories 3",
			[]string{"bar/zab.txt=2:644 bar/zib/zab.txt=4:644 foo/bar.txt=1:644 foo/blaz/bar.txt=3:644"},
			nil,
		},
		{"once/kitchen sink", []string{"1/2/3/4/.dotfile.lib=3:777 bar=2:644 foo.log=1:644"}, nil},

		{"update/update", []string{"bar=2:644 foo=1:644", "bar=4:640 foo=3:644"}, nil},
		{"update/no update", []string{"bar=2:644 foo=1:644", "bar=2:644 foo=1:644"}, nil},
		{
			"update/no update 2",
			[]string{"bar/zab.txt=2:644 foo/bar.txt=1:644", "bar/zab.txt=2:644 foo/bar.txt=1:644"},
			nil,
		},
		{"update/add 1", []string{"foo/bar.txt=1:644", "blu/zip.txt=2:644 foo/bar.txt=1:644"}, nil},
		{"update/add 2", []string{"foo/bar.txt=1:644", "blu/two/2/3/4/5/zip.txt=2:644 foo/bar.txt=1:644"}, nil},
		{"update/add 3", []string{"bar/zab.txt=1:644", "bar/2/3/4/5/zip.txt=2:644 bar/zab.txt=1:644"}, nil},
		{"update/delete 1", []string{"bar/zab.txt=2:644 foo/bar.txt=1:644", "foo/bar.txt=1:644"}, nil},
		{"update/delete 2", []string{"bar/1/2/3/zab.txt=2:644 foo/bar.txt=1:644", "foo/bar.txt=1:644"}, nil},
		{
			"update/delete 3",
			[]string{
				"bar/1/2/3/zab.txt=2:644 bar/1/2/sip.txt=3:644 foo/bar.txt=1:644",
				"bar/1/2/sip.txt=3:644 foo/bar.txt=1:644",
			},
			nil,
		},
		{
			"update/delete 4",
			[]string{"bar/1/2/3/4/5/6zab.txt=2:644 bar/1/2/sip.txt=3:644", "bar/1/2/sip.txt=3:644"},
			nil,
		},
		{"update/delete all", []string{"bar/1/2/3/4/5/6zab.txt=2:644 foo=1:644", ""}, nil},
		{"update/add and delete 1", []string{"foo/bar.txt=1:644", "bar/baz.txt=2:644"}, nil},

		{"updates/update 1", []string{"bar=1:644 foo=1:644", "bar=2:400 foo=2:400", "bar=3:600 foo=3:600"}, nil},
		{
			"updates/update 2",
			[]string{"bar/zab.txt=1:644 foo/bar.txt=1:644", "bar/zab.txt=2:400 foo/bar.txt=2:644"},
			nil,
		},
		{
			"updates/clear sentinel",
			[]string{"bar=1:644 foo=1:644", "bar=2:644 foo=2:644", "bar=3:644 foo=3:644", "bar=4:644 foo=4:644"},
			nil,
		},
		{
			"updates/subdirectories 2",
			[]string{"bar/zib/zab.txt=1:644 foo/blaz/bar.txt=1:644", "bar/zib/zab.txt=2:644 foo/blaz/bar.txt=2:644"},
			nil,
		},
		{"updates/add 1", []string{"foo/bar.txt=1:644", "add/new/keys.txt=2:644 foo/bar.txt=2:644"}, nil},
		{
			"updates/add 2",
			[]string{
				"foo/bar.txt=1:644",
				"add/new/keys.txt=2:644 foo/bar.txt=1:644",
				"add/new/keys.txt=2:644 add/new/keys2.txt=3:644 add/new/keys3.txt=4:644 foo/bar.txt=1:644",
			},
			nil,
		},
		{
			"updates/remove 1",
			[]string{
				"bar/zab.txt=1:644 foo/bar.txt=1:644 zip/zap/zup/fop.txt=1:644",
				"bar/zab.txt=2:644 foo/bar.txt=2:644",
				"foo/bar.txt=1:644",
			},
			nil,
		},

		{
			"removed/subdirs 5",
			[]string{"foo.txt=1:644 zap/1/2/3/4/bar.txt=2:644 zap/1/2/magic.txt=3:644", "zap/1/2/magic.txt=3:644"},
			nil,
		},
		{"visible/unclean nested path", []string{"foo///bar=1:644"}, []string{"foo/bar=1:644"}},
		{
			"valid/payload with path length > 4096 is invalid",
			[]string{strings.Repeat("a/", 2050) + "=1"},
			[]string{"-"},
		},
		{"valid/payload with absolute path is invalid", []string{"/dev/null=1"}, []string{"-"}},
		{"valid/payload with reserved path is invalid", []string{"..sneaky.txt=1"}, []string{"-"}},
		{"valid/payload with empty path is invalid", []string{"=1"}, []string{"-"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			process := w.host.Process("kubelet")
			v := podfiles.Disk{Process: process, FS: w.disk, Root: root}.Volume(podfiles.ConfigMapName, "v", w.pod.UID)
			for i, text := range tt.payloads {
				err := errors.New("the task did not end")
				process.Spawn("task", func(ctx context.Context) {
					if err = v.SetUp(ctx, podfiles.Setup{Pod: w.pod}); err == nil {
						err = v.Write(ctx, payload(text), nil)
					}
				})
				for w.host.Step() {
				}
				want := text
				if tt.want != nil {
					want = tt.want[i]
				}
				if (err != nil) != (want == "-") {
					t.Fatalf("payload %d: %v", i+1, err)
				}
				if err != nil {
					continue
				}
				if diff := cmp.Diff(want, w.visible(v.Path())); diff != "" {
					t.Errorf("after payload %d (-want +got):\n%s", i+1, diff)
				}
				names, err := w.disk.ReadDir(v.Path())
				testcheck.NoError(t, err)
				hidden := slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, "..") })
				if len(hidden) != 2 {
					t.Errorf("after payload %d: %v, want ..data and one directory", i+1, hidden)
				}
			}
		})
	}
}
