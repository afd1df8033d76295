package invariant_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/invariant"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// scene is a world without processes, in which a test acts as every component, under one rule. It
// panics on errors.
type scene struct {
	host       *sim.Stepped
	server     *fake.Server
	devices    *devicesStub
	rules      *invariant.Checker
	user       kubernetes.Interface // has no cache, and leaves no record
	components map[string]*sim.Process
	names      []string // replaces UIDs in texts: UID, name, UID, name
	claims     int      // created so far
}

var createOptions = metav1.CreateOptions{}

// story is the sequence of actions in a scene.
type story func(s *scene)

// claimRow is a row of a table of rules: a story and the text of the violation, "" for none.
type claimRow struct {
	rule, name string
	story      story
	want       string
}

// playAll plays each row's story and compares the violation, also at rest.
func playAll(t *testing.T, rows []claimRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.rule+" "+row.name, func(t *testing.T) {
			s := newScene(t, row.rule)
			row.story(s)
			var said []string
			for _, o := range s.rules.CheckAtRest() {
				said = append(said, o.String())
			}
			for _, v := range s.rules.Violations() {
				said = append(said, v.Message)
			}
			got := strings.NewReplacer(s.names...).Replace(strings.Join(said, "\n"))
			if got != row.want {
				t.Errorf("got  %q\nwant %q\n%s", got, row.want, s.host.Log().Text())
			}
		})
	}
}

func newScene(t *testing.T, rule string) *scene {
	t.Helper()
	selected, err := invariant.Select(rule)
	if err != nil {
		t.Fatal(err)
	}
	host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
	t.Cleanup(host.Close)
	server := fake.NewServer(fake.Config{Now: host.Now})
	devices := &devicesStub{mounts: map[string][]nodefs.Mount{}}
	return &scene{
		host: host, server: server, devices: devices, user: server.Client(sim.DirectCaller()),
		components: map[string]*sim.Process{},
		rules: invariant.Watch(invariant.World{API: server, Log: host.Log(), Now: host.Now, Devices: devices},
			selected...),
	}
}

// controller adds a component that has caches of claims, volumes, classes and pods. They are filled
// by settle.
func (s *scene) controller(name string) {
	c := s.host.Process(name)
	s.components[name] = c
	factory := s.server.Informers(c)
	factory.Core().V1().PersistentVolumeClaims().Informer()
	factory.Core().V1().PersistentVolumes().Informer()
	factory.Storage().V1().StorageClasses().Informer()
	factory.Core().V1().Pods().Informer()
}

// settle delivers all events to the caches.
func (s *scene) settle() {
	if err := s.host.Run(); err != nil {
		panic(err)
	}
}

// act makes a task ("component/task") take up a key and run a function, while no other task runs.
func (s *scene) act(actor, key string, do func(ctx context.Context, client kubernetes.Interface, c *sim.Process)) {
	component, task, _ := strings.Cut(actor, "/")
	c := s.components[component]
	done := false
	c.Spawn(task, func(ctx context.Context) {
		c.Record(trace.Action{Kind: trace.KindWork, Verb: "sync", Object: key}, trace.Outcome{})
		do(ctx, s.server.Client(c), c)
		done = true
	})
	for !done {
		if err := s.host.StepTask(actor); err != nil {
			panic(err)
		}
	}
}

// call records a driver call of a task.
func (s *scene) call(actor, verb, object string, err error) {
	s.host.Log().Append(trace.Record{
		Task: actor, Action: trace.Action{Kind: trace.KindDriver, Verb: verb, Object: "disk.example.com/" + object},
		Outcome: trace.Outcome{Err: err},
	})
}

// inject records an event.
func (s *scene) inject(verb, object string) {
	s.host.Log().Append(trace.Record{
		Task:   "world",
		Action: trace.Action{Kind: trace.KindEvent, Verb: verb, Object: object},
	})
}

func (s *scene) claim(name, size string, options ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	claim := newClaim(name, size, options...)
	claim = testcheck.Must(s.user.CoreV1().PersistentVolumeClaims("default").Create(context.Background(), claim, createOptions))
	s.claims++
	s.names = append(s.names, string(claim.UID), fmt.Sprint("UID-", s.claims))
	return claim
}

func (s *scene) volume(name, size string, options ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	v := testcheck.Must(s.user.CoreV1().PersistentVolumes().Create(context.Background(),
		newVolume(name, size, options...), createOptions))
	s.names = append(s.names, string(v.UID), "UID-"+name)
	return v
}

func (s *scene) editClaim(name string, edits ...func(*corev1.PersistentVolumeClaim)) {
	editClaimAs(s.user, name, edits...)
}

// editClaimAs changes a claim by one write, and its status by another if the edit changed it.
func editClaimAs(client kubernetes.Interface, name string, edits ...func(*corev1.PersistentVolumeClaim)) {
	ctx, claims := context.Background(), client.CoreV1().PersistentVolumeClaims("default")
	for _, edit := range edits {
		claim := testcheck.Must(claims.Get(ctx, name, metav1.GetOptions{}))
		was := claim.Status.DeepCopy()
		edit(claim)
		if is := claim.Status; is.String() != was.String() {
			testcheck.Must(claims.UpdateStatus(ctx, claim, metav1.UpdateOptions{}))
			continue
		}
		testcheck.Must(claims.Update(ctx, claim, metav1.UpdateOptions{}))
	}
}

func (s *scene) editVolume(name string, edits ...func(*corev1.PersistentVolume)) {
	editVolumeAs(s.user, name, edits...)
}

func editVolumeAs(client kubernetes.Interface, name string, edits ...func(*corev1.PersistentVolume)) {
	ctx, volumes := context.Background(), client.CoreV1().PersistentVolumes()
	for _, edit := range edits {
		v := testcheck.Must(volumes.Get(ctx, name, metav1.GetOptions{}))
		was := v.Status.DeepCopy()
		edit(v)
		if is := v.Status; is.String() != was.String() {
			testcheck.Must(volumes.UpdateStatus(ctx, v, metav1.UpdateOptions{}))
			continue
		}
		testcheck.Must(volumes.Update(ctx, v, metav1.UpdateOptions{}))
	}
}

// updateClaim changes a stored claim, bypassing validation.
func (s *scene) updateClaim(name string, edit func(*corev1.PersistentVolumeClaim)) {
	s.server.UpdateStored("persistentvolumeclaims", "default", name, func(stored fake.Object) fake.Object {
		claim := stored.DeepCopyObject().(*corev1.PersistentVolumeClaim)
		edit(claim)
		return claim
	})
}

func (s *scene) updateVolume(name string, edit func(*corev1.PersistentVolume)) {
	s.server.UpdateStored("persistentvolumes", "", name, func(stored fake.Object) fake.Object {
		v := stored.DeepCopyObject().(*corev1.PersistentVolume)
		edit(v)
		return v
	})
}

// deleteVolume begins the deletion of a volume that has a finalizer.
func (s *scene) deleteVolume(name string) {
	if err := s.user.CoreV1().PersistentVolumes().Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

func (s *scene) deleteClaim(name string) {
	if err := s.user.CoreV1().PersistentVolumeClaims("default").Delete(context.Background(), name,
		metav1.DeleteOptions{}); err != nil {
		panic(err)
	}
}

// removeClaim deletes a claim and removes its finalizers.
func (s *scene) removeClaim(name string) {
	s.editClaim(name, func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
	s.deleteClaim(name)
}

func (s *scene) removeVolume(name string) {
	s.editVolume(name, func(v *corev1.PersistentVolume) { v.Finalizers = nil })
	s.deleteVolume(name)
}

// bind binds a volume and a claim as the controller does.
func (s *scene) bind(volume string, claim *corev1.PersistentVolumeClaim) {
	s.editVolume(volume, reservedFor(claim), inPhase(corev1.VolumeBound))
	s.editClaim(claim.Name, boundTo(volume), markedBound)
}

func reservedFor(claim *corev1.PersistentVolumeClaim) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
}

func free(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil }

func freeButForName(v *corev1.PersistentVolume) { v.Spec.ClaimRef.UID = "" }

func inPhase(phase corev1.PersistentVolumePhase) func(*corev1.PersistentVolume) {
	return func(v *corev1.PersistentVolume) { v.Status.Phase = phase }
}

func boundTo(volume string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
	}
}

// markedBound sets the status of a claim that is bound to a volume like those of newVolume.
func markedBound(c *corev1.PersistentVolumeClaim) {
	c.Status.Phase = corev1.ClaimBound
	c.Status.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	c.Status.Capacity = c.Spec.Resources.Requests
}

func markedLost(c *corev1.PersistentVolumeClaim) { c.Status.Phase = corev1.ClaimLost }

// toDelete sets the policy of a volume to Delete.
func toDelete(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
}

func toRetain(v *corev1.PersistentVolume) {
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
}

const provisionerFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"

// provisioned marks a volume as provisioned for a claim.
func provisioned(v *corev1.PersistentVolume) {
	toDelete(v)
	metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, "disk.example.com")
	v.Finalizers = append(v.Finalizers, provisionerFinalizer)
}

func block(v *corev1.PersistentVolume) {
	mode := corev1.PersistentVolumeBlock
	v.Spec.VolumeMode = &mode
}

func selecting(disk string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"disk": disk}}
	}
}
