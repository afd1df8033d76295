package filesdiff

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/configmap"
	"k8s.io/kubernetes/pkg/volume/downwardapi"
	"k8s.io/kubernetes/pkg/volume/emptydir"
	"k8s.io/kubernetes/pkg/volume/projected"
	"k8s.io/kubernetes/pkg/volume/secret"
	volumetesting "k8s.io/kubernetes/pkg/volume/testing"
	"k8s.io/kubernetes/pkg/volume/util"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/podfiles"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard()) // upstream logs each missing directory
	flag.Parse()
	for _, f := range []struct{ name, value string }{{"rapid.seed", "1"}, {"rapid.checks", "300"}, {"rapid.nofailfile", "true"}} {
		set := false
		flag.Visit(func(given *flag.Flag) { set = set || given.Name == f.name })
		if !set {
			if err := flag.Set(f.name, f.value); err != nil {
				panic(err)
			}
		}
	}
	os.Exit(m.Run())
}

const root = "/kubelet"

// A world is a pod with one set of objects, and two kubelets that set its volumes up.
type world struct {
	rt       *rapid.T
	host     *sim.Stepped
	server   *fake.Server
	client   kubernetes.Interface
	pod      *corev1.Pod
	disk     *nodefs.Memory
	ours     plugins.Manager
	dir      string
	upstream *volume.VolumePluginMgr
	mounted  map[string]bool
}

func TestSameTreeOnDisk(t *testing.T) {
	isRoot := os.Geteuid() == 0
	if !isRoot {
		t.Log("groups and users of files are not compared: they require root")
	}
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		noError(rt, err)
		w := newWorld(t, rt, dir, isRoot)
		defer w.host.Close()
		same := w.setUp()
		for range rapid.IntRange(0, 3).Draw(rt, "changes") {
			w.change()
			same = same && w.setUp()
		}
		if same {
			w.tearDown()
		}
	})
}

func noError(rt *rapid.T, err error) {
	rt.Helper()
	if err != nil {
		rt.Fatal(err)
	}
}

func newWorld(t *testing.T, rt *rapid.T, dir string, isRoot bool) *world {
	host := sim.NewStepped(sim.SteppedConfig{})
	server := fake.NewServer(fake.Config{Now: host.Now})
	w := &world{
		rt: rt, host: host, server: server, client: server.Client(sim.DirectCaller()), dir: dir,
		disk: nodefs.NewMemory(root), pod: drawPod(rt, isRoot),
		mounted: map[string]bool{},
	}
	for _, o := range []fake.Object{
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "robot", Namespace: "default"}}, w.pod,
		w.drawConfigMap("first"), w.drawSecret("first"),
	} {
		noError(rt, server.Add(o))
	}
	stored, ok := server.Get("pods", "default", w.pod.Name)
	if !ok {
		rt.Fatal("no pod")
	}
	w.pod = stored.(*corev1.Pod)
	allocatable := corev1.ResourceList{}
	noError(rt, w.ours.Register(podfiles.Plugins(podfiles.Config{
		Disk:   podfiles.Disk{Process: host.Process("kubelet"), FS: w.disk, Root: root},
		Client: w.client, Allocatable: allocatable,
	})...))
	var all []volume.VolumePlugin
	for _, some := range [][]volume.VolumePlugin{
		emptydir.ProbeVolumePlugins(), configmap.ProbeVolumePlugins(), secret.ProbeVolumePlugins(),
		downwardapi.ProbeVolumePlugins(), projected.ProbeVolumePlugins(),
	} {
		all = append(all, some...)
	}
	w.upstream = volumetesting.NewFakeKubeletVolumeHost(t, dir, w.client, all).GetPluginMgr()
	return w
}

// setUp sets all volumes up in both worlds and compares results and trees. It returns false if the
// trees differ on purpose from now on: a volume in use could not be updated, and upstream removed
// it.
func (w *world) setUp() (same bool) {
	for i := range w.pod.Spec.Volumes {
		v := &w.pod.Spec.Volumes[i]
		ours, upstream := w.setUpOurs(v, w.mounted[v.Name]), w.setUpUpstream(v)
		if diff := cmp.Diff(w.text(upstream), w.text(ours)); diff != "" {
			w.rt.Fatalf("set up volume %s (-upstream +ours):\n%s", v.Name, diff)
		}
		if ours != nil && w.mounted[v.Name] {
			return false
		}
		w.mounted[v.Name] = ours == nil
		w.compare("set up volume " + v.Name)
	}
	return true
}

// text returns the text of an error without what is not the plugins' own. Upstream's fake host reads
// from the API server, not from the kubelet's cache, whose errors name the kind.
func (w *world) text(err error) string {
	if err == nil {
		return ""
	}
	return strings.NewReplacer("configmaps \"", "configmap \"", "secrets \"", "secret \"",
		w.dir, root, nodefs.ErrNotEmpty.Error(), syscall.ENOTEMPTY.Error()).Replace(err.Error())
}

func (w *world) setUpOurs(v *corev1.Volume, again bool) (err error) {
	spec := &plugins.Spec{Volume: v}
	kind, err := w.ours.FindBySpec(spec)
	noError(w.rt, err)
	w.run(func() {
		err = kind.Mounter.SetUp(context.Background(), spec, w.pod,
			plugins.MountOptions{FSGroup: group(w.pod), Remount: again})
	})
	return err
}

// run runs something in a task of our kubelet.
func (w *world) run(f func()) {
	w.host.Process("task").Spawn("task", func(context.Context) { f() })
	for w.host.Step() {
	}
}

func group(pod *corev1.Pod) *int64 {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	return pod.Spec.SecurityContext.FSGroup
}

func (w *world) setUpUpstream(v *corev1.Volume) error {
	spec := volume.NewSpecFromVolume(v)
	plugin, err := w.upstream.FindPluginBySpec(spec)
	noError(w.rt, err)
	mounter, err := plugin.NewMounter(spec, w.pod)
	noError(w.rt, err)
	return mounter.SetUp(volume.MounterArgs{FsGroup: group(w.pod), FsUser: util.FsUserFrom(w.pod)})
}

func (w *world) tearDown() {
	for i := range w.pod.Spec.Volumes {
		v := &w.pod.Spec.Volumes[i]
		kind, err := w.ours.FindBySpec(&plugins.Spec{Volume: v})
		noError(w.rt, err)
		w.run(func() { err = kind.Mounter.TearDown(context.Background(), v.Name, w.pod.UID) })
		noError(w.rt, err)
		plugin, err := w.upstream.FindPluginBySpec(volume.NewSpecFromVolume(v))
		noError(w.rt, err)
		unmounter, err := plugin.NewUnmounter(v.Name, w.pod.UID)
		noError(w.rt, err)
		noError(w.rt, unmounter.TearDown())
		w.compare("tear down volume " + v.Name)
	}
}

// change changes the objects behind the volumes, and the pod's labels.
func (w *world) change() {
	core := w.client.CoreV1()
	type removal func(ctx context.Context, name string, opts metav1.DeleteOptions) error
	put := func(resource string, remove removal, o fake.Object) {
		if _, there := w.server.Get(resource, "default", "first"); there {
			noError(w.rt, remove(context.Background(), "first", metav1.DeleteOptions{}))
		}
		if rapid.IntRange(0, 5).Draw(w.rt, "gone") > 0 {
			noError(w.rt, w.server.Add(o))
		}
	}
	if rapid.Bool().Draw(w.rt, "config map changes") {
		put("configmaps", core.ConfigMaps("default").Delete, w.drawConfigMap("first"))
	}
	if rapid.Bool().Draw(w.rt, "secret changes") {
		put("secrets", core.Secrets("default").Delete, w.drawSecret("first"))
	}
	if rapid.Bool().Draw(w.rt, "labels change") {
		w.pod = w.pod.DeepCopy()
		w.pod.Labels = drawWords(w.rt, "labels")
	}
}

// An entry is a file, directory or link of a tree.
type entry struct {
	Mode    fs.FileMode
	Target  string
	Content string
	UID     int
	GID     int
}

// compare compares the trees of both worlds.
func (w *world) compare(after string) {
	ours, upstream := w.ourTree(), w.upstreamTree()
	if diff := cmp.Diff(upstream, ours); diff != "" {
		w.rt.Fatalf("after %s (-upstream +ours):\n%s", after, diff)
	}
}

// stamp matches the names of directories that are named by the time, and tokens.
var (
	stamp = regexp.MustCompile(`\.\.\d{4}_\d\d_\d\d_\d\d_\d\d_\d\d\.\d+`)
	token = regexp.MustCompile(`^ey[\w-]+\.[\w-]+\.[\w-]+$`)
)

// normal returns an entry without what differs in each run.
func normal(name string, e entry) (string, entry) {
	e.Target = stamp.ReplaceAllString(e.Target, "TIME")
	e.Content = token.ReplaceAllString(e.Content, "TOKEN")
	e.Mode &^= fs.ModeSticky
	if e.Mode&fs.ModeSymlink != 0 {
		e.Mode = fs.ModeSymlink // a link's permissions mean nothing
	}
	if os.Geteuid() != 0 {
		e.UID, e.GID, e.Mode = 0, 0, e.Mode&^fs.ModeSetgid
	}
	return stamp.ReplaceAllString(name, "TIME"), e
}

func (w *world) ourTree() map[string]entry {
	tree := map[string]entry{}
	var visit func(dir string)
	visit = func(dir string) {
		names, err := w.disk.ReadDir(dir)
		noError(w.rt, err)
		for _, name := range names {
			full := path.Join(dir, name)
			info, err := w.disk.Stat(full)
			noError(w.rt, err)
			e := entry{Mode: info.Mode, UID: info.UID, GID: info.GID}
			switch {
			case info.Mode.IsDir():
				visit(full)
			case info.Mode&fs.ModeSymlink != 0:
				e.Target, err = w.disk.Readlink(full)
				noError(w.rt, err)
			default:
				data, err := w.disk.ReadFile(full)
				noError(w.rt, err)
				e.Content = string(data)
			}
			at, e := normal(strings.TrimPrefix(full, root+"/"), e)
			tree[at] = e
		}
	}
	visit(root)
	return volumesOnly(tree)
}

func (w *world) upstreamTree() map[string]entry {
	tree := map[string]entry{}
	noError(w.rt, filepath.WalkDir(w.dir, func(full string, d fs.DirEntry, err error) error {
		if err != nil || full == w.dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		owner := info.Sys().(*syscall.Stat_t)
		e := entry{Mode: info.Mode(), UID: int(owner.Uid), GID: int(owner.Gid)}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			e.Target, err = os.Readlink(full)
		case info.Mode().IsRegular():
			var data []byte
			data, err = os.ReadFile(full)
			e.Content = string(data)
		}
		at, e := normal(strings.TrimPrefix(full, w.dir+"/"), e)
		tree[at] = e
		return err
	}))
	return volumesOnly(tree)
}

// volumesOnly drops the directories of the pod above its volumes, whose modes are those of the
// kubelet, and of the markers.
func volumesOnly(tree map[string]entry) map[string]entry {
	maps.DeleteFunc(tree, func(name string, e entry) bool {
		elements := strings.Split(name, "/")
		inVolume := len(elements) >= 5 && elements[2] == "volumes"
		return !inVolume && e.Mode.IsDir()
	})
	for name, e := range tree {
		if strings.Contains(name, "/plugins/") {
			e.Mode = 0 // of the marker: that of any file
			tree[name] = e
		}
	}
	return tree
}

// names are the names of keys and files.
var names = rapid.SampledFrom([]string{"a", "b", "c.txt", ".dot", "dir/a", "dir/b", "dir/deep/c", "other/x"})

func drawWords(rt *rapid.T, label string) map[string]string {
	return rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c.txt", ".dot", "d"}),
		rapid.SampledFrom([]string{"", "1", "2", "three\n"}), 0, 4).Draw(rt, label)
}

func (w *world) drawConfigMap(name string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	for key, value := range drawWords(w.rt, "config map") {
		if len(value)%2 == 0 {
			if o.BinaryData == nil {
				o.BinaryData = map[string][]byte{}
			}
			o.BinaryData[key] = []byte(value)
		} else {
			if o.Data == nil {
				o.Data = map[string]string{}
			}
			o.Data[key] = value
		}
	}
	return o
}

func (w *world) drawSecret(name string) *corev1.Secret {
	o := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string][]byte{}}
	for key, value := range drawWords(w.rt, "secret") {
		o.Data[key] = []byte(value)
	}
	return o
}

var (
	modes = rapid.SampledFrom([]*int32{ptr.To[int32](0o644), ptr.To[int32](0o400), ptr.To[int32](0o777), ptr.To[int32](0o440)})
	yes   = rapid.SampledFrom([]*bool{nil, ptr.To(true), ptr.To(false)})
	which = rapid.SampledFrom([]string{"first", "first", "first", "missing"})
)

func drawItems(rt *rapid.T) []corev1.KeyToPath {
	var items []corev1.KeyToPath
	used := map[string]bool{}
	for range rapid.IntRange(0, 3).Draw(rt, "items") {
		item := corev1.KeyToPath{Key: rapid.SampledFrom([]string{"a", "b", "d"}).Draw(rt, "key"), Path: names.Draw(rt, "path")}
		if rapid.Bool().Draw(rt, "own mode") {
			item.Mode = modes.Draw(rt, "mode")
		}
		if !used[item.Path] {
			used[item.Path] = true
			items = append(items, item)
		}
	}
	return items
}

func drawFields(rt *rapid.T) []corev1.DownwardAPIVolumeFile {
	var files []corev1.DownwardAPIVolumeFile
	for i := range rapid.IntRange(0, 3).Draw(rt, "fields") {
		file := corev1.DownwardAPIVolumeFile{Path: fmt.Sprintf("field-%d/f", i)}
		if rapid.Bool().Draw(rt, "resource") {
			file.ResourceFieldRef = &corev1.ResourceFieldSelector{
				ContainerName: rapid.SampledFrom([]string{"main", "other", "none"}).Draw(rt, "container"),
				Resource: rapid.SampledFrom([]string{
					"limits.cpu", "limits.memory", "requests.cpu", "requests.memory", "limits.ephemeral-storage", "requests.x",
				}).Draw(rt, "resource"),
			}
		} else {
			file.FieldRef = &corev1.ObjectFieldSelector{FieldPath: rapid.SampledFrom([]string{
				"metadata.name", "metadata.namespace", "metadata.uid", "metadata.labels", "metadata.annotations",
				"metadata.labels['a']", "metadata.annotations['c.txt']", "metadata.labels['']", "metadata.name['a']", "spec.nodeName",
			}).Draw(rt, "field")}
		}
		if rapid.Bool().Draw(rt, "own mode") {
			file.Mode = modes.Draw(rt, "mode")
		}
		files = append(files, file)
	}
	return files
}

func drawSource(rt *rapid.T) corev1.VolumeSource {
	object := corev1.LocalObjectReference{Name: which.Draw(rt, "object")}
	optional, mode := yes.Draw(rt, "optional"), modes.Draw(rt, "default mode")
	switch rapid.IntRange(0, 5).Draw(rt, "kind") {
	case 0:
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	case 1:
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}
	case 2:
		return corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: object, Items: drawItems(rt), DefaultMode: mode, Optional: optional,
		}}
	case 3:
		return corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
			SecretName: object.Name, Items: drawItems(rt), DefaultMode: mode, Optional: optional,
		}}
	case 4:
		return corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: drawFields(rt), DefaultMode: mode}}
	default:
		from := []corev1.VolumeProjection{
			{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: object, Items: drawItems(rt), Optional: optional}},
			{Secret: &corev1.SecretProjection{LocalObjectReference: object, Items: drawItems(rt), Optional: optional}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: drawFields(rt)}},
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: ptr.To[int64](600)}},
		}
		n := rapid.IntRange(0, len(from)).Draw(rt, "sources")
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: rapid.Permutation(from).Draw(rt, "order")[:n], DefaultMode: mode}}
	}
}

func drawPod(rt *rapid.T, isRoot bool) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "pod", Namespace: "default", UID: types.UID("uid-1"),
			Labels: drawWords(rt, "labels"), Annotations: drawWords(rt, "annotations"),
		},
		Spec: corev1.PodSpec{ServiceAccountName: "robot", SecurityContext: &corev1.PodSecurityContext{}},
	}
	if isRoot {
		pod.Spec.SecurityContext.FSGroup = rapid.SampledFrom([]*int64{nil, ptr.To[int64](1234)}).Draw(rt, "group")
		pod.Spec.SecurityContext.RunAsUser = rapid.SampledFrom([]*int64{nil, ptr.To[int64](1000)}).Draw(rt, "user")
	}
	for _, name := range []string{"main", "other"} {
		c := corev1.Container{Name: name, Image: "image"}
		pod.Spec.Containers = append(pod.Spec.Containers, c)
	}
	for i := range rapid.IntRange(1, 3).Draw(rt, "volumes") {
		v := corev1.Volume{Name: fmt.Sprintf("v-%d", i), VolumeSource: drawSource(rt)}
		pod.Spec.Volumes = append(pod.Spec.Volumes, v)
		c := &pod.Spec.Containers[rapid.IntRange(0, 1).Draw(rt, "in container")]
		at := rapid.SampledFrom([]string{"/a", "/a/b", "/a/b/c", "/a-b", "/x/y", "/"}).Draw(rt, "mounted at")
		if !slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == at }) {
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: v.Name, MountPath: at})
		}
	}
	return pod
}
