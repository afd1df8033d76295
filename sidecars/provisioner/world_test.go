package provisioner_test

import (
	"context"
	"slices"
	"testing"

	csispec "github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/definitions"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/plugins/array"
	"github.com/volsim/volsim/plugins/csi"
	"github.com/volsim/volsim/sidecars/internal/scripted"
	"github.com/volsim/volsim/sidecars/provisioner"
	"github.com/volsim/volsim/sim"
)

const driverName = array.DriverName

// world is an API server, a disk array, the provisioner, and what binds, releases and protects in a real cluster.
type world struct {
	*testworld.World
	array *array.Array
	conn  *scripted.Conn
	api   *scripted.Client

	process *sim.Process
	start   func() // starts the provisioner again, after a crash
}

func newWorld(t *testing.T, chooser sim.Chooser) *world {
	t.Helper()
	return newWorldWith(t, chooser, provisioner.Config{})
}

// newWorldWith is newWorld with what is particular about the provisioner.
func newWorldWith(t *testing.T, chooser sim.Chooser, cfg provisioner.Config) *world {
	t.Helper()
	return newWorldServing(t, chooser, cfg)
}

// newWorldServing is newWorldWith with definitions of custom resources.
func newWorldServing(t *testing.T, chooser sim.Chooser, cfg provisioner.Config, served ...string) *world {
	t.Helper()
	w := testworld.NewWith(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 100_000}, fake.Config{CrossNamespaceSources: len(served) > 0})
	disks := array.New(array.Config{CapacityBytes: 10 << 30})
	conn := &scripted.Conn{ClientConnInterface: csi.Direct(func(r grpc.ServiceRegistrar) {
		csispec.RegisterControllerServer(r, disks.Controller())
	})}
	x := &world{World: w, array: disks, conn: conn}
	for _, text := range served {
		testcheck.NoError(t, definitions.InstallText(t.Context(), w.Server, text))
	}
	x.start = func() {
		c := w.Host.Process("provisioner")
		x.process, x.api = c, &scripted.Client{Interface: w.Server.Client(c)}
		cfg.Process, cfg.Client, cfg.Informers, cfg.DriverName = c, x.api, w.Server.Informers(c), driverName
		cfg.Recorder = events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: driverName})
		cfg.Conn = csi.Suspend(c, driverName, conn)
		cfg.Dynamic = w.Server.Client(c).Dynamic()
		testcheck.Must(provisioner.New(cfg))
	}
	x.start()
	newBinder(w.Host, w.Server)
	return x
}

func ptr[T any](v T) *T { return &v }

func newClass(name string, mode storagev1.VolumeBindingMode) *storagev1.StorageClass {
	return &storagev1.StorageClass{
		ObjectMeta:        metav1.ObjectMeta{Name: name},
		Provisioner:       driverName,
		VolumeBindingMode: &mode,
	}
}

func (w *world) class(class *storagev1.StorageClass) {
	w.Helper()
	testcheck.Must(w.User.StorageV1().StorageClasses().Create(context.Background(), class, metav1.CreateOptions{}))
}

func newClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name,
			Annotations: map[string]string{"volume.kubernetes.io/storage-provisioner": driverName},
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

func (w *world) create(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	w.Helper()
	return testcheck.Must(w.User.CoreV1().PersistentVolumeClaims(claim.Namespace).
		Create(context.Background(), claim, metav1.CreateOptions{}))
}

func (w *world) delete(claim string) {
	w.Helper()
	err := w.User.CoreV1().PersistentVolumeClaims("default").Delete(context.Background(), claim, metav1.DeleteOptions{})
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	obj, ok := w.Server.Get("persistentvolumeclaims", "default", name)
	if !ok {
		return nil
	}
	return obj.(*corev1.PersistentVolumeClaim)
}

func (w *world) volumes() []*corev1.PersistentVolume {
	var volumes []*corev1.PersistentVolume
	for _, obj := range w.Server.List("persistentvolumes") {
		volumes = append(volumes, obj.(*corev1.PersistentVolume))
	}
	return volumes
}

// events are the events, as "reason: message", each once, in order of reason and message.
func (w *world) events() []string {
	var texts []string
	for _, obj := range w.Server.List("events") {
		e := obj.(*corev1.Event)
		texts = append(texts, e.Reason+": "+e.Message)
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// binder stands in for the PersistentVolume controller and the two protection controllers.
type binder struct {
	client  kubernetes.Interface
	volumes *sim.Queue[string]
	claims  *sim.Queue[cache.ObjectName]
}

func newBinder(host sim.Host, server *fake.Server) {
	c := host.Process("binder")
	b := &binder{
		client:  server.Client(c),
		volumes: sim.NewQueue[string](c, sim.QueueConfig{Name: "volumes"}),
		claims:  sim.NewQueue[cache.ObjectName](c, sim.QueueConfig{Name: "claims"}),
	}
	core := server.Informers(c).Core().V1()
	handle := func(informer cache.SharedIndexInformer, f func(any)) {
		_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: f, UpdateFunc: func(_, obj any) { f(obj) }, DeleteFunc: f,
		})
		if err != nil {
			panic(err)
		}
	}
	handle(core.PersistentVolumes().Informer(), func(obj any) { b.volumes.Add(obj.(*corev1.PersistentVolume).Name) })
	handle(core.PersistentVolumeClaims().Informer(), func(obj any) {
		claim := obj.(*corev1.PersistentVolumeClaim)
		b.claims.Add(cache.MetaObjectToName(claim))
		b.volumes.Add("pvc-" + string(claim.UID))
	})
	b.volumes.Work(b.syncVolume)
	b.claims.Work(b.syncClaim)
}

func (b *binder) syncVolume(ctx context.Context, name string) error {
	volumes := b.client.CoreV1().PersistentVolumes()
	volume, err := volumes.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if volume.DeletionTimestamp != nil && volume.Status.Phase != corev1.VolumeBound {
		volume.Finalizers = slices.DeleteFunc(volume.Finalizers, func(f string) bool { return f == "kubernetes.io/pv-protection" })
		_, err = volumes.Update(ctx, volume, metav1.UpdateOptions{})
		return err
	}
	ref := volume.Spec.ClaimRef
	if ref == nil {
		return nil
	}
	claim, err := b.client.CoreV1().PersistentVolumeClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err) || claim.UID != ref.UID || claim.Spec.VolumeName != "" && claim.Spec.VolumeName != name:
		return b.setPhase(ctx, volume, corev1.VolumeReleased)
	case claim.Spec.VolumeName == "":
		claim.Spec.VolumeName = name
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
		if _, err := b.client.CoreV1().PersistentVolumeClaims(ref.Namespace).Update(ctx, claim, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return b.setPhase(ctx, volume, corev1.VolumeBound)
}

func (b *binder) setPhase(ctx context.Context, volume *corev1.PersistentVolume, phase corev1.PersistentVolumePhase) error {
	if volume.Status.Phase == phase {
		return nil
	}
	volume.Status.Phase = phase
	_, err := b.client.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{})
	return err
}

func (b *binder) syncClaim(ctx context.Context, key cache.ObjectName) error {
	claims := b.client.CoreV1().PersistentVolumeClaims(key.Namespace)
	claim, err := claims.Get(ctx, key.Name, metav1.GetOptions{})
	const protection = "kubernetes.io/pvc-protection"
	if err != nil || claim.DeletionTimestamp == nil || !slices.Contains(claim.Finalizers, protection) {
		return nil
	}
	claim.Finalizers = slices.DeleteFunc(claim.Finalizers, func(f string) bool { return f == protection })
	_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
	return err
}
