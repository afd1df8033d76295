package upstreampv_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

// The tests of this file show faults of upstream's controller. TestUpstreamsFaults of package
// explore shows the same faults in a variant of ours, and that ours does not have them.

// A disk is a set of directories.
type disk struct {
	mu      sync.Mutex
	created int
	dirs    map[string]bool // by path
}

// A dirPlugin is the plugin of one process. Its volumes are directories of a disk. Like upstream's
// plugins, it creates another one at each call.
type dirPlugin struct {
	volume.VolumePlugin // nil: kubelets only
	*disk
	exited atomic.Bool // the process has exited: calls have no effect
}

const pluginName = "kubernetes.io/dirs"

func (*dirPlugin) Init(volume.VolumeHost) error                 { return nil }
func (*dirPlugin) GetPluginName() string                        { return pluginName }
func (*dirPlugin) GetVolumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (*dirPlugin) SupportsMountOption() bool                    { return false }
func (*dirPlugin) CanSupport(s *volume.Spec) bool {
	return s.PersistentVolume != nil && s.PersistentVolume.Spec.HostPath != nil
}

func (d *dirPlugin) NewProvisioner(_ klog.Logger, o volume.VolumeOptions) (volume.Provisioner, error) {
	return provisioner{d, o}, nil
}

func (d *dirPlugin) NewDeleter(_ klog.Logger, s *volume.Spec) (volume.Deleter, error) {
	return deleter{plugin: d, path: s.PersistentVolume.Spec.HostPath.Path}, nil
}

// paths returns the paths of all directories.
func (d *disk) paths() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.dirs))
}

type provisioner struct {
	*dirPlugin
	volume.VolumeOptions
}

func (p provisioner) Provision(*corev1.Node, []corev1.TopologySelectorTerm) (*corev1.PersistentVolume, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.created++
	path := fmt.Sprintf("/tmp/%d", p.created)
	p.dirs[path] = true
	return directory(p.PVName, path, p.PersistentVolumeReclaimPolicy), nil
}

type deleter struct {
	*volume.MetricsNil
	plugin *dirPlugin
	path   string
}

func (d deleter) GetPath() string { return d.path }

func (d deleter) Delete() error {
	d.plugin.mu.Lock()
	defer d.plugin.mu.Unlock()
	if !d.plugin.exited.Load() {
		delete(d.plugin.dirs, d.path)
	}
	return nil
}

var gibibyte = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}

func directory(name, path string, policy corev1.PersistentVolumeReclaimPolicy) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
	v.Spec.Capacity, v.Spec.AccessModes = gibibyte, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	v.Spec.PersistentVolumeReclaimPolicy = policy
	v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	return v
}

// A world is a server with upstream's controller, in a bubble.
type world struct {
	*testing.T
	server *fake.Server
	user   *fake.Clientset
	disk   *disk
}

// run runs script in a world in a bubble.
func run(t *testing.T, script func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fake.NewServer(fake.Config{Now: time.Now})
		script(&world{t, server, server.Client(sim.DirectCaller()), &disk{dirs: map[string]bool{}}})
	})
}

// start starts upstream's controller with an interceptor. stop ends its process.
func (w *world) start(interceptor histories.Interceptor) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	plugin := &dirPlugin{disk: w.disk}
	wait, err := upstreampv.Start(ctx, upstreampv.Config{
		Client: w.server.Client(sim.DirectCaller()).WithInterceptor(interceptor), Plugins: []volume.VolumePlugin{plugin},
	})
	if err != nil {
		w.Fatal(err)
	}
	return func() {
		plugin.exited.Store(true)
		cancel()
		wait()
	}
}

// pass waits for a number of resyncs.
func (w *world) pass(resyncs int) {
	for range resyncs {
		synctest.Wait()
		time.Sleep(upstreampv.ResyncPeriod)
	}
	synctest.Wait()
}

func (w *world) claim(name, class string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, gibibyte
	claim.Spec.StorageClassName = &class
	claim, err := w.user.CoreV1().PersistentVolumeClaims("default").Create(w.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return claim
}

// released creates a Released volume that was bound to a claim, by name and UID.
func (w *world) released(v *corev1.PersistentVolume, claim string, uid types.UID) *corev1.PersistentVolume {
	w.disk.dirs[v.Spec.HostPath.Path] = true
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: claim, UID: uid}
	v, err := w.user.CoreV1().PersistentVolumes().Create(w.Context(), v, metav1.CreateOptions{})
	if err != nil {
		w.Fatal(err)
	}
	v.Status.Phase = corev1.VolumeReleased
	if v, err = w.user.CoreV1().PersistentVolumes().UpdateStatus(w.Context(), v, metav1.UpdateOptions{}); err != nil {
		w.Fatal(err)
	}
	return v
}

// kubernetes#118545.
func TestUpstreamGetsTheClaimOfARetainedVolumeAtEachResync(t *testing.T) {
	run(t, func(w *world) {
		w.released(directory("v", "/tmp/v", corev1.PersistentVolumeReclaimRetain), "c", "deleted")
		w.claim("c", "")
		var mu sync.Mutex
		requests := 0 // guarded by mu
		stop := w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "get", "persistentvolumeclaims") {
				mu.Lock()
				defer mu.Unlock()
				requests++
			}
			return serve()
		})
		defer stop()
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return requests
		}
		w.pass(2)
		before := count()
		w.pass(10)
		if n := count() - before; n != 10 {
			w.Errorf("%d requests for the claim in 10 resyncs, want one in each", n)
		}
	})
}

// kubernetes#142332.
func TestUpstreamDeletesABoundVolumeAfterAStaleRead(t *testing.T) {
	run(t, func(w *world) {
		var lagging atomic.Bool
		stop := w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "watch", "persistentvolumeclaims") && lagging.Load() {
				return nil, errors.New("dropped")
			}
			return serve()
		})
		defer stop()
		w.pass(1)
		lagging.Store(true)
		claim := w.claim("c", "")
		v := directory("v", "/tmp/v", corev1.PersistentVolumeReclaimRetain)
		v = w.released(v, "c", claim.UID)
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		if _, err := w.user.CoreV1().PersistentVolumes().Update(w.Context(), v, metav1.UpdateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.pass(1)
		if paths := w.disk.paths(); len(paths) > 0 {
			w.Errorf("directories %v, want none: upstream deletes the data of a bound claim", paths)
		}
	})
}

func TestUpstreamDeletesAnotherVolumeOfTheSameName(t *testing.T) {
	run(t, func(w *world) {
		ctx, volumes := w.Context(), w.user.CoreV1().PersistentVolumes()
		w.released(directory("v", "/tmp/old", corev1.PersistentVolumeReclaimDelete), "c", "deleted")
		var once sync.Once
		stop := w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "delete", "persistentvolumes") {
				once.Do(func() { // another client deletes it first, and creates another
					w.disk.dirs["/tmp/new"] = true
					_, err := volumes.Patch(ctx, "v", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
					if err == nil {
						err = volumes.Delete(ctx, "v", metav1.DeleteOptions{})
					}
					if err == nil {
						_, err = volumes.Create(ctx, directory("v", "/tmp/new", corev1.PersistentVolumeReclaimRetain), metav1.CreateOptions{})
					}
					if err != nil {
						w.Error(err)
					}
				})
			}
			return serve()
		})
		defer stop()
		w.pass(2)
		v, err := volumes.Get(ctx, "v", metav1.GetOptions{})
		if err != nil || v.DeletionTimestamp == nil || v.Spec.HostPath.Path != "/tmp/new" {
			w.Errorf("volume %+v, %v; want the other volume to be deleted by upstream", v, err)
		}
		if paths := w.disk.paths(); !slices.Equal(paths, []string{"/tmp/new"}) {
			w.Errorf("directories %v, want that of the other volume", paths)
		}
	})
}

// TestUpstreamLeaksAVolumeWhenItExitsBeforeSavingIt stops the process while it retries to create
// the PersistentVolume.
func TestUpstreamLeaksAVolumeWhenItExitsBeforeSavingIt(t *testing.T) {
	run(t, func(w *world) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "dirs"}, Provisioner: pluginName}
		if _, err := w.user.StorageV1().StorageClasses().Create(w.Context(), class, metav1.CreateOptions{}); err != nil {
			w.Fatal(err)
		}
		w.claim("c", "dirs")
		stop := w.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if histories.Is(r, "create", "persistentvolumes") {
				return nil, errors.New("not now")
			}
			return serve()
		})
		time.Sleep(15 * time.Second) // five attempts, 10 s apart
		stop()
		time.Sleep(time.Minute)
		stop = w.start(nil)
		defer stop()
		w.pass(2)
		claim, err := w.user.CoreV1().PersistentVolumeClaims("default").Get(w.Context(), "c", metav1.GetOptions{})
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			w.Errorf("claim %v, %v; want it Bound", claim.Status.Phase, err)
		}
		if paths := w.disk.paths(); len(paths) != 2 {
			w.Errorf("directories %v, want two: upstream leaks a volume", paths)
		}
	})
}
