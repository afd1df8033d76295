package kubelet_test

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/nodefs"
)

// partWorld is a world whose node's disk the test sees, under the rules about what nodes have
// mounted.
type partWorld struct {
	*world
	disk  nodefs.FS
	root  string // of the kubelet, on the disk
	rules *invariant.Checker
}

func newPartWorld(t *testing.T) *partWorld {
	t.Helper()
	w := &partWorld{}
	w.world = newWorld(t, func(cfg *cluster.Config) {
		cfg.Interceptors.FS = func(_ string, disk nodefs.FS) nodefs.FS {
			w.disk = disk
			return disk
		}
	})
	rules, err := invariant.Select("I17", "I26", "I27", "I36", "I40", "L6")
	testcheck.NoError(w.t, err)
	w.rules = invariant.Watch(invariant.World{API: w.Server(), Log: w.Trace(), Now: w.host.Now, Devices: w.DeviceState()}, rules...)
	w.root = "/node-1" // of an array's simulated disk
	return w
}

// atRest lets the world come to rest, in which no rule may be broken and nothing owed.
func (w *partWorld) atRest() {
	w.t.Helper()
	w.rest()
	for _, pending := range w.rules.CheckAtRest() {
		w.t.Errorf("pending: %v", pending)
	}
	for _, v := range w.rules.Violations() {
		w.t.Errorf("broken: %v", v)
	}
}

// podOf is a pod whose container mounts parts of the volume of the claim "data", each at
// /mnt/<index>. What has a $ in it is a subPathExpr.
func (w *partWorld) podOf(name string, parts ...string) *corev1.Pod {
	w.t.Helper()
	pod := cluster.NewPod(name, "data")
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = mountsOf(parts...)
	return pod
}

func mountsOf(parts ...string) []corev1.VolumeMount {
	mounts := make([]corev1.VolumeMount, len(parts))
	for i, part := range parts {
		mounts[i] = corev1.VolumeMount{Name: "data", MountPath: fmt.Sprintf("/mnt/%d", i)}
		if strings.Contains(part, "$") {
			mounts[i].SubPathExpr = part
		} else {
			mounts[i].SubPath = part
		}
	}
	return mounts
}

// volume is where the volume of the claim is mounted for a pod that runs, and has it whole.
func (w *partWorld) volume() string {
	w.t.Helper()
	if _, ok := w.Server().Get("pods", "default", "first"); !ok {
		w.create("first", "data")
		testcheck.NoError(w.t, w.WaitForPod(w.t.Context(), "default", "first", corev1.PodRunning))
	}
	at, err := w.MountPath("default", "first", "data")
	testcheck.NoError(w.t, err)
	return at
}

// writes has a container write a file at one of its mount paths.
func (w *partWorld) writes(pod, container, mountPath, file string) {
	w.t.Helper()
	at, err := w.ContainerPath("default", pod, container, mountPath)
	testcheck.NoError(w.t, err)
	testcheck.NoError(w.t, w.disk.WriteFile(path.Join(at, file), []byte(pod)))
}

func (w *partWorld) wants(file, content string) {
	w.t.Helper()
	got, err := w.disk.ReadFile(file)
	if err != nil || string(got) != content {
		w.t.Errorf("%s holds %q, %v; want %q", file, got, err, content)
	}
}

// waiting is what the containers of a pod are said to wait for, by name.
func (w *partWorld) waiting(pod string) map[string]string {
	w.t.Helper()
	all := map[string]string{}
	status := w.pod(pod).Status
	for _, c := range append(status.InitContainerStatuses, status.ContainerStatuses...) {
		if s := c.State.Waiting; s != nil {
			all[c.Name] = strings.TrimSuffix(s.Reason+": "+s.Message, ": ")
		}
	}
	return all
}

// TestContainersHaveTheirParts of a volume, each its own, which are made if they are missing;
// another pod finds them again.
func TestContainersHaveTheirParts(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t)
	volume := w.volume()
	testcheck.NoError(w.t, w.disk.Chmod(volume, fs.ModeSetgid|0o775))
	testcheck.NoError(w.t, w.disk.MkdirAll(volume+"/there"))
	testcheck.NoError(w.t, w.disk.WriteFile(volume+"/there/file", nil))
	pod := w.podOf("web", "logs", "there/file", "")
	pod.Spec.InitContainers = []corev1.Container{{Name: "seed", Image: "i", VolumeMounts: mountsOf("logs/seed")}}
	pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Image: "i", VolumeMounts: mountsOf("logs")})
	w.createPod(pod)
	w.atRest()
	testcheck.Equal(w.t, "life", []string{"Pending", "Running main:running side:running ready"}, w.lives["web"])
	w.writes("web", "seed", "/mnt/0", "a")
	w.writes("web", "main", "/mnt/0", "b")
	w.writes("web", "side", "/mnt/0", "c")
	w.writes("web", "main", "/mnt/2", "d")
	w.wants(volume+"/logs/seed/a", "web")
	w.wants(volume+"/logs/b", "web")
	w.wants(volume+"/logs/c", "web")
	w.wants(volume+"/d", "web")
	for _, dir := range []string{"/logs", "/logs/seed"} {
		info, err := w.disk.Stat(volume + dir)
		testcheck.NoError(w.t, err)
		testcheck.Equal(w.t, "mode of "+dir, fs.ModeDir|fs.ModeSetgid|0o775, info.Mode)
	}
	at, err := w.ContainerPath("default", "web", "main", "/mnt/1")
	testcheck.NoError(w.t, err)
	uid := w.pod("web").UID
	name := path.Base(path.Dir(volume))
	testcheck.Equal(w.t, "path", path.Join(w.root, "pods", string(uid), "volume-subpaths", name, "main", "1"), at)
	if _, err := w.ContainerPath("default", "web", "main", "/mnt/3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a path that the container has not: %v", err)
	}

	w.delete("web")
	w.atRest()
	w.gone(uid)
	w.createPod(w.podOf("next", "logs"))
	w.atRest()
	b, err := w.ReadFile("default", "next", "data", "b")
	testcheck.NoError(w.t, err)
	testcheck.Equal(w.t, "what the next pod reads", "web", string(b))
	w.delete("next")
	w.delete("first")
	w.atRest()
}

// gone looks whether anything of a pod is left on the disk.
func (w *partWorld) gone(uid types.UID) {
	w.t.Helper()
	if there, err := w.disk.Exists(path.Join(w.root, "pods", string(uid))); there || err != nil {
		w.t.Errorf("the directory of pod %s is there: %v, %v", uid, there, err)
	}
}

// TestContainerThatCannotBeCreated: the failure is reported once, and the container runs as soon as
// it can be created.
func TestContainerThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	const (
		cannotMake = `failed to create subPath directory for volumeMount "data" of container "main"`
		cannotBind = `failed to prepare subPath for volumeMount "data" of container "main"`
	)
	tests := []struct {
		name    string
		part    string
		prepare func(w *partWorld, volume string)
		why     string
		mend    func(w *partWorld, volume string) // nil: it cannot be mended
	}{
		{name: "a variable without a value", part: "logs/$(ODD)/$(B)/$(POD)/$(EMPTY)", why: "missing value for B, EMPTY, ODD"},
		{name: "an absolute path", part: "$(ROOT)/logs", why: "error SubPath `/var/logs` must not be an absolute path"},
		{name: "a path up", part: "logs/$(UP)", why: "unable to provision SubPath `logs/..`: must not contain '..'"},
		{
			name: "a link out of the volume", part: "out", why: cannotBind,
			prepare: func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Symlink(w.root, volume+"/out")) },
			mend:    func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Remove(volume+"/out")) },
		},
		{
			name: "a link out of the node", part: "out/etc", why: cannotBind,
			prepare: func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Symlink("/", volume+"/out")) },
			mend:    func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Remove(volume+"/out")) },
		},
		{
			name: "something new behind a link out", part: "out/new", why: cannotBind,
			prepare: func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Symlink(w.root, volume+"/out")) },
			mend:    func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Remove(volume+"/out")) },
		},
		{
			name: "a link that leads nowhere", part: "link/new", why: cannotMake,
			prepare: func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Symlink("missing", volume+"/link")) },
			mend:    func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.MkdirAll(volume+"/missing")) },
		},
		{
			name: "below a file", part: "file/new", why: cannotBind,
			prepare: func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.WriteFile(volume+"/file", nil)) },
			mend:    func(w *partWorld, volume string) { testcheck.NoError(w.t, w.disk.Remove(volume+"/file")) },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newPartWorld(t)
			volume := w.volume()
			if tt.prepare != nil {
				tt.prepare(w, volume)
			}
			pod := w.podOf("web", tt.part)
			pod.Spec.Containers[0].Env = []corev1.EnvVar{
				{Name: "POD", Value: "web"}, {Name: "ROOT", Value: "/var"}, {Name: "UP", Value: ".."}, {Name: "EMPTY"},
			}
			w.createPod(pod)
			w.atRest()
			w.pass(time.Minute)
			testcheck.Equal(w.t, "waiting", map[string]string{"main": "CreateContainerConfigError: " + tt.why}, w.waiting("web"))
			testcheck.Equal(w.t, "life", []string{"Pending", "Pending main:CreateContainerConfigError"}, w.lives["web"])
			testcheck.Equal(w.t, "events", []string{"x1 Warning Failed web: Error: " + tt.why}, w.events("Failed"))
			testcheck.Equal(w.t, "times that its status was written", 1, w.count("patch/status", "pods/default/web"))
			for _, c := range w.pod("web").Status.Conditions {
				if c.Type == corev1.PodReadyToStartContainers {
					testcheck.Equal(w.t, string(c.Type), corev1.ConditionTrue, c.Status)
				}
			}
			if names, err := w.disk.ReadDir(w.root + "/pods/" + string(w.pod("web").UID)); err != nil || len(names) != 1 {
				t.Errorf("in the directory of the pod there are %v, %v; want its volumes only", names, err)
			}
			if tt.mend != nil {
				tt.mend(w, volume)
				w.pass(10 * time.Second)
				w.atRest()
				testcheck.Equal(w.t, "life", []string{"Pending", "Pending main:CreateContainerConfigError", "Running main:running ready"}, w.lives["web"])
			}
			uid := w.pod("web").UID
			w.delete("web")
			w.atRest()
			w.gone(uid)
		})
	}
}

// count is how often something was done to an object, or to any: "".
func (w *partWorld) count(verb, object string) int {
	n := 0
	for _, r := range w.Trace().Records() {
		if r.Verb == verb && (object == "" || r.Object == object) {
			n++
		}
	}
	return n
}

// TestContainersNextToOneThatCannotBeCreated wait as well, each with its own reason. After a failed
// init container no other is prepared.
func TestContainersNextToOneThatCannotBeCreated(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t)
	pod := w.podOf("web", "$(A)")
	pod.Spec.Containers = append(pod.Spec.Containers,
		corev1.Container{Name: "side", Image: "i", VolumeMounts: mountsOf("$(A)")},
		corev1.Container{Name: "well", Image: "i", VolumeMounts: mountsOf("well")})
	w.volume()
	w.createPod(pod)
	w.atRest()
	testcheck.Equal(w.t, "waiting", map[string]string{
		"main": "CreateContainerConfigError: missing value for A", "side": "CreateContainerConfigError: missing value for A",
		"well": "ContainerCreating",
	}, w.waiting("web"))
	testcheck.Equal(w.t, "events", 2, len(w.events("Failed")))
	fields := map[string]bool{}
	for _, object := range w.Server().List("events") {
		if e := object.(*corev1.Event); e.Reason == "Failed" {
			fields[e.InvolvedObject.FieldPath] = true
		}
	}
	testcheck.Equal(w.t, "fields", map[string]bool{"spec.containers{main}": true, "spec.containers{side}": true}, fields)

	pod = w.podOf("other", "$(A)")
	pod.Spec.InitContainers = []corev1.Container{
		{Name: "one", Image: "i", VolumeMounts: mountsOf("one")},
		{Name: "two", Image: "i", VolumeMounts: mountsOf("$(B)")},
		{Name: "three", Image: "i", VolumeMounts: mountsOf("$(C)")},
	}
	w.createPod(pod)
	w.atRest()
	testcheck.Equal(w.t, "waiting", map[string]string{
		"one": "PodInitializing", "two": "CreateContainerConfigError: missing value for B", "three": "PodInitializing", "main": "PodInitializing",
	}, w.waiting("other"))
}

// TestExpressions are what subPathExpr may be made of.
func TestExpressions(t *testing.T) {
	t.Parallel()
	field := func(path string) *corev1.EnvVarSource {
		return &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}
	}
	environment := []corev1.EnvVar{
		{Name: "NAME", ValueFrom: field("metadata.name")},
		{Name: "SPACE", ValueFrom: field("metadata.namespace")},
		{Name: "UID", ValueFrom: field("metadata.uid")},
		{Name: "LABEL", ValueFrom: field("metadata.labels['app']")},
		{Name: "NOTE", ValueFrom: field("metadata.annotations['volsim.dev/note']")},
		{Name: "NODE", ValueFrom: field("spec.nodeName")},
		{Name: "WHO", ValueFrom: field("spec.serviceAccountName")},
		{Name: "ADDRESS", ValueFrom: field("status.podIP")},
		{Name: "PLAIN", Value: "plain"},
		{Name: "TWICE", Value: "$(PLAIN)-$(NAME)"},
		{Name: "EARLY", Value: "$(LATE)"},
		{Name: "LATE", Value: "late"},
		{Name: "MONEY", Value: "$$(PLAIN)"},
		{Name: "EMPTY"},
	}
	tests := []struct{ expression, want string }{ // want: the path, or the variables without a value
		{"foo$", "foo$"},
		{"foo/$(NAME)", "foo/web"},
		{"$(NAME)/bar", "web/bar"},
		{"$(SPACE)-$(LABEL).$(NOTE)", "default-green.noted"},
		{"$(UID)", "uid"},
		{"$(NODE)/$(WHO)", "node-1/default"},
		{"$(TWICE)", "plain-web"},
		{"$(EARLY)", "$(LATE)"},
		{"$(MONEY)", "$(PLAIN)"},
		{"$$(PLAIN)/$PLAIN/$(PLAIN", "$(PLAIN)/$PLAIN/$(PLAIN"},
		{"a/$(ADDRESS)", "!ADDRESS"},
		{"foo/$(POD_NAME)/$(EMPTY)", "!EMPTY, POD_NAME"},
		{"foo/$(PLAIN)/$(POD_NAME)", "!POD_NAME"},
		{"$()", "!"},
		{"$(PLAIN$(NAME))", "!PLAIN$(NAME"},
	}
	w := newPartWorld(t)
	volume := w.volume()
	for i, tt := range tests {
		name := fmt.Sprintf("web-%d", i)
		pod := w.podOf(name, tt.expression)
		pod.Labels = map[string]string{"app": "green"}
		pod.Annotations = map[string]string{"volsim.dev/note": "noted"}
		pod.Spec.Containers[0].Env = environment
		w.createPod(pod)
		w.rest()
		want := strings.NewReplacer("web", name, "uid", string(w.pod(name).UID)).Replace(tt.want)
		if missing, is := strings.CutPrefix(want, "!"); is {
			testcheck.Equal(w.t, tt.expression, "CreateContainerConfigError: missing value for "+missing, w.waiting(name)["main"])
			continue
		}
		w.writes(name, "main", "/mnt/0", "file")
		w.wants(path.Join(volume, want, "file"), name)
	}
}

// TestPodGoesBeforeItsContainersCanBeCreated: at any moment, and leaves nothing.
func TestPodGoesBeforeItsContainersCanBeCreated(t *testing.T) {
	t.Parallel()
	for steps := range 60 {
		w := newPartWorld(t)
		w.volume()
		w.createPod(w.podOf("web", "logs", "more/$(POD)"))
		for range steps {
			w.host.Step()
		}
		uid := w.pod("web").UID
		w.delete("web")
		w.atRest()
		w.gone(uid)
		w.delete("first")
		w.atRest()
	}
}

// TestPodIsDeletedWhileItsPartsAreBound: its volume stays until the step that is under way has
// ended, after which no further part is bound.
func TestPodIsDeletedWhileItsPartsAreBound(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"MakeSubPath", "BindSubPath"} {
		w := newPartWorld(t)
		w.createPod(w.podOf("web", "logs", "more"))
		w.claim("data")
		task := "kubelet(node-1)/containers of " + string(w.pod("web").UID)
		testcheck.NoError(w.t, w.Wait(t.Context(), "the kubelet to be at it", func() bool {
			return slices.ContainsFunc(w.host.Enabled(), func(s string) bool { return strings.HasPrefix(s, task) && strings.Contains(s, at) })
		}))
		w.delete("web")
		w.moveAllBut(task)
		testcheck.Equal(w.t, "unpublished meanwhile", 0, w.count("NodeUnpublishVolume", ""))
		bound := w.count("BindSubPath", "")
		uid := w.pod("web").UID
		w.atRest()
		testcheck.Equal(w.t, "bound afterwards", 1, w.count("BindSubPath", "")-bound)
		testcheck.Equal(w.t, "unpublished", 1, w.count("NodeUnpublishVolume", ""))
		w.gone(uid)
	}
}

// moveAllBut runs all tasks but one, as long as no time passes.
func (w *partWorld) moveAllBut(task string) {
	w.t.Helper()
	for {
		enabled := slices.DeleteFunc(w.host.Enabled(), func(s string) bool { return strings.HasPrefix(s, task) })
		if len(enabled) == 0 {
			return
		}
		name, _, _ := strings.Cut(enabled[0], ": ")
		testcheck.NoError(w.t, w.host.StepTask(name))
	}
}

func (w *partWorld) claim(name string) {
	w.t.Helper()
	_, err := w.Client().CoreV1().PersistentVolumeClaims("default").Create(w.t.Context(), cluster.NewClaim(name, "1Gi"), metav1.CreateOptions{})
	testcheck.NoError(w.t, err)
}

func (w *partWorld) inject(what string) {
	w.t.Helper()
	if !w.host.Inject(what) {
		w.t.Fatalf("%s cannot happen now", what)
	}
}

// TestPartsOutliveTheKubelet: a running pod keeps its subPaths when its kubelet is killed, and gets
// them again after a reboot, however often the kubelet is killed then.
func TestPartsOutliveTheKubelet(t *testing.T) {
	t.Parallel()
	w := newPartWorld(t)
	volume := w.volume()
	w.createPod(w.podOf("web", "logs"))
	testcheck.NoError(w.t, w.WaitForPod(t.Context(), "default", "web", corev1.PodRunning))
	w.inject("crash kubelet(node-1)")
	w.atRest()
	w.writes("web", "main", "/mnt/0", "a")
	w.inject("reboot node-1")
	testcheck.NoError(w.t, w.Wait(t.Context(), "the kubelet to say so", func() bool { return len(w.waiting("web")) > 0 }))
	w.inject("crash kubelet(node-1)")
	w.atRest()
	w.writes("web", "main", "/mnt/0", "b")
	w.wants(volume+"/logs/a", "web")
	w.wants(volume+"/logs/b", "web")
	testcheck.Equal(w.t, "life", []string{
		"Pending", "Running main:running ready", "Running main:ContainerCreating(1)", "Running main:running(1) ready",
	}, w.lives["web"])
}

// TestPlacesLeftOfAPodThatIsGone are removed when the kubelet starts, with its directory; what else
// there is stays.
func TestPlacesLeftOfAPodThatIsGone(t *testing.T) {
	t.Parallel()
	const place = "/volume-subpaths/volume/container/index"
	tests := []struct {
		name  string
		leave func(w *partWorld, dir string)
		stays string
	}{
		{"no volume", func(w *partWorld, dir string) { testcheck.NoError(w.t, w.disk.MkdirAll(dir+"/not/a/volume")) }, ""},
		{"a volume", func(w *partWorld, dir string) { testcheck.NoError(w.t, w.disk.MkdirAll(dir+"/volumes/plugin/name")) }, ""},
		{"a directory in a volume", func(w *partWorld, dir string) {
			testcheck.NoError(w.t, w.disk.MkdirAll(dir+"/volumes/plugin/name/subdir"))
		}, ""},
		{"a place", func(w *partWorld, dir string) { testcheck.NoError(w.t, w.disk.MkdirAll(dir+place)) }, ""},
		{"a place that is a file", func(w *partWorld, dir string) {
			testcheck.NoError(w.t, w.disk.MkdirAll(path.Dir(dir+place)))
			testcheck.NoError(w.t, w.disk.WriteFile(dir+place, nil))
		}, ""},
		{"no place at all", func(w *partWorld, dir string) { testcheck.NoError(w.t, w.disk.MkdirAll(dir+"/volume-subpaths")) }, ""},
		{"a volume with a file", func(w *partWorld, dir string) {
			testcheck.NoError(w.t, w.disk.MkdirAll(dir+"/volumes/plugin/name"))
			testcheck.NoError(w.t, w.disk.WriteFile(dir+"/volumes/plugin/name/test.txt", []byte("test1")))
		}, "/volumes/plugin/name/test.txt"},
		{"a place with a file", func(w *partWorld, dir string) {
			testcheck.NoError(w.t, w.disk.MkdirAll(dir+place))
			testcheck.NoError(w.t, w.disk.WriteFile(dir+place+"/test.txt", []byte("test1")))
		}, place + "/test.txt"},
		{"a part that is bound still", func(w *partWorld, dir string) {
			testcheck.NoError(w.t, w.disk.MkdirAll(dir+place))
			testcheck.NoError(w.t, w.disk.MkdirAll(w.root+"/elsewhere"))
			testcheck.NoError(w.t, w.disk.BindMount(w.root+"/elsewhere", dir+place, false))
			testcheck.NoError(w.t, w.disk.WriteFile(dir+place+"/test.txt", nil))
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newPartWorld(t)
			dir := w.root + "/pods/pod1uid"
			tt.leave(w, dir)
			w.inject("crash kubelet(node-1)")
			w.rest()
			if there, err := w.disk.Exists(dir); err != nil || there != (tt.stays != "") {
				t.Errorf("the directory is there: %v, %v", there, err)
			}
			if there, err := w.disk.Exists(w.root + "/elsewhere/test.txt"); tt.name == "a part that is bound still" &&
				(err != nil || !there) {
				t.Errorf("what was bound is there: %v, %v", there, err)
			}
			if there, err := w.disk.Exists(dir + tt.stays); tt.stays != "" && (err != nil || !there) {
				t.Errorf("%s is there: %v, %v", tt.stays, there, err)
			}
		})
	}
}
