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
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/upstreampv"
)

// The tests of this file show with upstream's controller itself what it does wrong. The same stories are told, and ours is
// shown beside, by TestUpstreamsFaults of package explore.

// disk is a set of directories.
type disk struct {
	mu    sync.Mutex
	made  int
	there map[string]bool // by path
}

// dirs is the plugin of one process, whose volumes are directories of a disk. As upstream's plugins do, it makes another each
// time it is asked.
type dirs struct {
	volume.VolumePlugin // nil: kubelets only
	*disk
	dead atomic.Bool // the process has ended: what still runs of it does nothing
}

const provisioner = "kubernetes.io/dirs"

func (*dirs) Init(volume.VolumeHost) error                 { return nil }
func (*dirs) GetPluginName() string                        { return provisioner }
func (*dirs) GetVolumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (*dirs) SupportsMountOption() bool                    { return false }
func (*dirs) CanSupport(s *volume.Spec) bool {
	return s.PersistentVolume != nil && s.PersistentVolume.Spec.HostPath != nil
}

func (d *dirs) NewProvisioner(_ klog.Logger, o volume.VolumeOptions) (volume.Provisioner, error) {
	return making{d, o}, nil
}

func (d *dirs) NewDeleter(_ klog.Logger, s *volume.Spec) (volume.Deleter, error) {
	return deleting{dirs: d, path: s.PersistentVolume.Spec.HostPath.Path}, nil
}

func (d *disk) left() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.there))
}

type making struct {
	*dirs
	volume.VolumeOptions
}

func (m making) Provision(*corev1.Node, []corev1.TopologySelectorTerm) (*corev1.PersistentVolume, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.made++
	path := fmt.Sprintf("/tmp/%d", m.made)
	m.there[path] = true
	return directory(m.PVName, path, m.PersistentVolumeReclaimPolicy), nil
}

type deleting struct {
	*volume.MetricsNil
	dirs *dirs
	path string
}

func (d deleting) GetPath() string { return d.path }

func (d deleting) Delete() error {
	d.dirs.mu.Lock()
	defer d.dirs.mu.Unlock()
	if !d.dirs.dead.Load() {
		delete(d.dirs.there, d.path)
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

// story is a server with upstream's controller, in a bubble.
type story struct {
	*testing.T
	server *fake.Server
	user   *fake.Clientset
	disk   *disk
}

// tell tells a story in a bubble.
func tell(t *testing.T, what func(s *story)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := fake.NewServer(fake.Config{Now: time.Now})
		what(&story{t, server, server.Client(sim.DirectCaller()), &disk{there: map[string]bool{}}})
	})
}

// start starts upstream's controller over a client that meddles. stop ends its process.
func (s *story) start(meddle meddling) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	plugin := &dirs{disk: s.disk}
	wait, err := upstreampv.Start(ctx, upstreampv.Config{
		Client: s.server.Client(sim.DirectCaller()).WithInterceptor(meddle), Plugins: []volume.VolumePlugin{plugin},
	})
	if err != nil {
		s.Fatal(err)
	}
	return func() {
		plugin.dead.Store(true)
		cancel()
		wait()
	}
}

// pass lets so many resyncs pass.
func (s *story) pass(resyncs int) {
	for range resyncs {
		synctest.Wait()
		time.Sleep(upstreampv.ResyncPeriod)
	}
	synctest.Wait()
}

func (s *story) claim(name, class string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	claim.Spec.AccessModes, claim.Spec.Resources.Requests = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, gibibyte
	claim.Spec.StorageClassName = &class
	claim, err := s.user.CoreV1().PersistentVolumeClaims("default").Create(s.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return claim
}

// released has a volume that was a claim's, by name and UID, and is Released.
func (s *story) released(v *corev1.PersistentVolume, claim string, uid types.UID) *corev1.PersistentVolume {
	s.disk.there[v.Spec.HostPath.Path] = true
	v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: claim, UID: uid}
	v, err := s.user.CoreV1().PersistentVolumes().Create(s.Context(), v, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	v.Status.Phase = corev1.VolumeReleased
	if v, err = s.user.CoreV1().PersistentVolumes().UpdateStatus(s.Context(), v, metav1.UpdateOptions{}); err != nil {
		s.Fatal(err)
	}
	return v
}

// meddling is called at each request, and may answer it.
type meddling func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error)

func (m meddling) Intercept(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
	if m == nil {
		return serve()
	}
	return m(r, serve)
}

// InterceptWatch asks with verb watch for each event; one that an error is returned for is not delivered.
func (m meddling) InterceptWatch(r fake.Request, serve func() (watch.Interface, error)) (watch.Interface, error) {
	w, err := serve()
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		_, err := m.Intercept(r, func() (runtime.Object, error) { return e.Object, nil })
		return e, err == nil
	}), nil
}

// is tells whether a request is of a verb and a resource.
func is(r fake.Request, verb, resource string) bool {
	return r.Verb == verb && r.Resource.Resource == resource
}

// kubernetes#118545.
func TestUpstreamAsksForTheClaimOfAKeptVolumeAtEachResync(t *testing.T) {
	tell(t, func(s *story) {
		s.released(directory("v", "/tmp/v", corev1.PersistentVolumeReclaimRetain), "c", "gone")
		s.claim("c", "")
		var mu sync.Mutex
		asked := 0 // guarded by mu
		stop := s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "get", "persistentvolumeclaims") {
				mu.Lock()
				defer mu.Unlock()
				asked++
			}
			return serve()
		})
		defer stop()
		count := func() int {
			mu.Lock()
			defer mu.Unlock()
			return asked
		}
		s.pass(2)
		before := count()
		s.pass(10)
		if n := count() - before; n != 10 {
			s.Errorf("%d requests for the claim in 10 resyncs; this test is to show that upstream makes one in each", n)
		}
	})
}

// kubernetes#142332.
func TestUpstreamDeletesAClaimsVolumeWhenItsCacheIsBehind(t *testing.T) {
	tell(t, func(s *story) {
		var behind atomic.Bool
		stop := s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "watch", "persistentvolumeclaims") && behind.Load() {
				return nil, errors.New("nothing is heard")
			}
			return serve()
		})
		defer stop()
		s.pass(1)
		behind.Store(true)
		claim := s.claim("c", "")
		v := directory("v", "/tmp/v", corev1.PersistentVolumeReclaimRetain)
		v = s.released(v, "c", claim.UID)
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
		if _, err := s.user.CoreV1().PersistentVolumes().Update(s.Context(), v, metav1.UpdateOptions{}); err != nil {
			s.Fatal(err)
		}
		s.pass(1)
		if left := s.disk.left(); len(left) > 0 {
			s.Errorf("left: %v; this test is to show that upstream deletes what a claim has", left)
		}
	})
}

func TestUpstreamDeletesAnotherVolumeOfTheName(t *testing.T) {
	tell(t, func(s *story) {
		ctx, volumes := s.Context(), s.user.CoreV1().PersistentVolumes()
		s.released(directory("v", "/tmp/old", corev1.PersistentVolumeReclaimDelete), "c", "gone")
		var once sync.Once
		stop := s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "delete", "persistentvolumes") {
				once.Do(func() { // somebody deletes it first, and makes another
					s.disk.there["/tmp/new"] = true
					_, err := volumes.Patch(ctx, "v", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
					if err == nil {
						err = volumes.Delete(ctx, "v", metav1.DeleteOptions{})
					}
					if err == nil {
						_, err = volumes.Create(ctx, directory("v", "/tmp/new", corev1.PersistentVolumeReclaimRetain), metav1.CreateOptions{})
					}
					if err != nil {
						s.Error(err)
					}
				})
			}
			return serve()
		})
		defer stop()
		s.pass(2)
		v, err := volumes.Get(ctx, "v", metav1.GetOptions{})
		if err != nil || v.DeletionTimestamp == nil || v.Spec.HostPath.Path != "/tmp/new" {
			s.Errorf("%+v, %v; this test is to show that upstream deletes the other volume", v, err)
		}
		if left := s.disk.left(); !slices.Equal(left, []string{"/tmp/new"}) {
			s.Errorf("left: %v; this test is to show that upstream leaves the other volume's data", left)
		}
	})
}

// A process that ends while it tries to create the PersistentVolume leaves what its plugin made.
func TestUpstreamLeaksAVolumeWhenItEndsBeforeItIsSaved(t *testing.T) {
	tell(t, func(s *story) {
		class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "dirs"}, Provisioner: provisioner}
		if _, err := s.user.StorageV1().StorageClasses().Create(s.Context(), class, metav1.CreateOptions{}); err != nil {
			s.Fatal(err)
		}
		s.claim("c", "dirs")
		stop := s.start(func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			if is(r, "create", "persistentvolumes") {
				return nil, errors.New("not now")
			}
			return serve()
		})
		time.Sleep(15 * time.Second) // it tries 5 times, 10 s apart
		stop()
		time.Sleep(time.Minute)
		stop = s.start(nil)
		defer stop()
		s.pass(2)
		claim, err := s.user.CoreV1().PersistentVolumeClaims("default").Get(s.Context(), "c", metav1.GetOptions{})
		if err != nil || claim.Status.Phase != corev1.ClaimBound {
			s.Errorf("claim %v, %v; want it Bound", claim.Status.Phase, err)
		}
		if left := s.disk.left(); len(left) != 2 {
			s.Errorf("left: %v; this test is to show that upstream leaks a volume", left)
		}
	})
}
