package scheduler_test

import (
	"context"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/internal/testworld"
	"github.com/volsim/volsim/scheduler"
	"github.com/volsim/volsim/sim"
)

const selectedNode = "volume.kubernetes.io/selected-node"

// world is an API server, the scheduler, and a stand-in for the components that provision and bind
// volumes.
type world struct {
	*testworld.World
	maker *maker
}

func newWorld(t *testing.T, chooser sim.Chooser) *world {
	t.Helper()
	return newWorldWith(t, chooser, func(*scheduler.Config) {})
}

// newWorldWith returns a world whose scheduler has another configuration.
func newWorldWith(t *testing.T, chooser sim.Chooser, change func(*scheduler.Config)) *world {
	t.Helper()
	w := &world{World: testworld.NewWith(t, sim.SteppedConfig{Chooser: chooser, StepsMax: 100_000},
		fake.Config{Namespaces: []string{"other"}})}
	c := w.Host.Process("scheduler")
	cfg := scheduler.Config{
		Process: c, Client: w.Server.Client(c), Informers: w.Server.Informers(c),
		Recorder: events.New(events.Config{Process: c, Client: w.Server.Client(c), Source: "default-scheduler"}),
	}
	change(&cfg)
	testcheck.Must(scheduler.New(cfg))
	w.maker = newMaker(w.Host, w.Server)
	w.create(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: "d",
		VolumeBindingMode: ptr(storagev1.VolumeBindingWaitForFirstConsumer),
	})
	w.create(&storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "immediate"}, Provisioner: "d",
		VolumeBindingMode: ptr(storagev1.VolumeBindingImmediate),
	})
	return w
}

func ptr[T any](v T) *T { return &v }

func (w *world) create(objects ...any) {
	w.Helper()
	ctx, opts := context.Background(), metav1.CreateOptions{}
	for _, obj := range objects {
		var err error
		switch o := obj.(type) {
		case *corev1.Node:
			_, err = w.User.CoreV1().Nodes().Create(ctx, o, opts)
		case *corev1.Pod:
			_, err = w.User.CoreV1().Pods(o.Namespace).Create(ctx, o, opts)
		case *corev1.PersistentVolumeClaim:
			_, err = w.User.CoreV1().PersistentVolumeClaims(o.Namespace).Create(ctx, o, opts)
		case *storagev1.StorageClass:
			_, err = w.User.StorageV1().StorageClasses().Create(ctx, o, opts)
		default:
			w.Fatalf("cannot create a %T", obj)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
}

func newNode(name string, change ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue,
		}}},
	}
	for _, f := range change {
		f(node)
	}
	return node
}

func newPod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	for _, claim := range claims {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: claim, VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
	return pod
}

func newClaim(name, class string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			StorageClassName: &class,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceStorage: resource.MustParse("1Gi"),
			}},
		},
	}
}

func (w *world) pod(name string) *corev1.Pod {
	obj, ok := w.Server.Get("pods", "default", name)
	if !ok {
		return nil
	}
	return obj.(*corev1.Pod)
}

func (w *world) claim(name string) *corev1.PersistentVolumeClaim {
	obj, ok := w.Server.Get("persistentvolumeclaims", "default", name)
	if !ok {
		return nil
	}
	return obj.(*corev1.PersistentVolumeClaim)
}

// events returns a pod's distinct events, as "reason: message", sorted.
func (w *world) events(pod string) []string {
	var texts []string
	for _, obj := range w.Server.List("events") {
		if e := obj.(*corev1.Event); e.InvolvedObject.Name == pod {
			texts = append(texts, e.Reason+": "+e.Message)
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// maker stands in for the provisioner and the PersistentVolume controller. It creates and binds a
// volume for each claim that has a node, or is of class immediate.
type maker struct {
	client kubernetes.Interface
	queue  *sim.Queue[cache.ObjectName]
	idle   bool            // provision nothing
	full   map[string]bool // nodes without room: their annotation is removed
}

func newMaker(host sim.Host, server *fake.Server) *maker {
	c := host.Process("maker")
	m := &maker{
		client: server.Client(c), queue: sim.NewQueue[cache.ObjectName](c, sim.QueueConfig{Name: "claims"}),
		full: map[string]bool{},
	}
	add := func(obj any) { m.queue.Add(cache.MetaObjectToName(obj.(*corev1.PersistentVolumeClaim))) }
	_, err := server.Informers(c).Core().V1().PersistentVolumeClaims().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: add, UpdateFunc: func(_, obj any) { add(obj) },
	})
	if err != nil {
		panic(err)
	}
	m.queue.Work(m.sync)
	return m
}

func (m *maker) sync(ctx context.Context, key cache.ObjectName) error {
	claims := m.client.CoreV1().PersistentVolumeClaims(key.Namespace)
	claim, err := claims.Get(ctx, key.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	node := claim.Annotations[selectedNode]
	if m.idle || claim.Spec.VolumeName != "" || node == "" && *claim.Spec.StorageClassName != "immediate" {
		return nil
	}
	if m.full[node] {
		delete(claim.Annotations, selectedNode)
		_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
		return err
	}
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + string(claim.UID)},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
			StorageClassName: *claim.Spec.StorageClassName,
			ClaimRef:         &corev1.ObjectReference{Namespace: key.Namespace, Name: key.Name, UID: claim.UID},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "d", VolumeHandle: key.Name,
			}},
		},
	}
	if node != "" {
		volume.Spec.NodeAffinity = onlyOn(node)
	}
	_, err = m.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	claim.Spec.VolumeName = volume.Name
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, "pv.kubernetes.io/bind-completed", "yes")
	_, err = claims.Update(ctx, claim, metav1.UpdateOptions{})
	return err
}

func onlyOn(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}
