package deploydiff

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/controller/replication"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/volsim/volsim/controllers/replicaset"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
	"github.com/volsim/volsim/test/conformance/histories/controllers"
)

// bothReplications are our controller of ReplicationControllers and upstream's.
var bothReplications = controllers.Pair[*world]{
	NewWorld: newWorld, Ticks: 20,
	Ours: []controllers.Controller{{Name: "replicationcontroller", Source: replicaset.ReplicationEventSource, New: func(
		process *sim.Process, client *fake.Clientset, informers informers.SharedInformerFactory, recorder record.EventRecorder,
	) {
		replicaset.New(replicaset.Config{
			Process: process, Client: client, Informers: informers, Recorder: recorder, ReplicationControllers: true,
		})
	}}},
	Upstream: func(ctx context.Context, client kubernetes.Interface, informers informers.SharedInformerFactory,
	) ([]func(context.Context), error) {
		core := informers.Core().V1()
		manager := replication.NewReplicationManager(ctx, core.Pods(), core.ReplicationControllers(), client, replication.BurstReplicas)
		return []func(context.Context){func(ctx context.Context) { manager.Run(ctx, 1) }}, nil
	},
}

var replicationPair = bothReplications.Histories(replicationDeliberate)

// TestReplicationControllers compares 200 histories.
func TestReplicationControllers(t *testing.T) { replicationPair.Run(t, 2, drawReplication, 20) }

// replicationDeliberate lists the allowed differences.
var replicationDeliberate = []histories.Difference[step, *world]{
	// Met of podcontrol.go: upstream takes a pod that the handlers' first list brings late for the one that
	// it has just created. Then it creates another one, and deletes one again.
	{Name: "after a restart no pod is created twice", Explains: func(d delta, _, line string) bool {
		restarted := slices.ContainsFunc(d.History, func(s step) bool {
			switch s.Act.(type) {
			case restart, deleteRC:
				return true
			default:
				return false
			}
		})
		return restarted && strings.HasPrefix(line, "event Normal SuccessfulDelete ") && slices.Contains(d.Upstream, line)
	}},
}

var replicationMutants = []histories.Mutant[controllers.Mutation]{
	{Name: "adopts no pods", Steps: 2, Mutation: controllers.Instead("patch", "pods",
		func(r fake.Request, _ func() (runtime.Object, error)) (runtime.Object, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, r.Name)
		})},
	{Name: "deletes no pods", Steps: 2, Mutation: controllers.Instead("delete", "pods",
		func(fake.Request, func() (runtime.Object, error)) (runtime.Object, error) { return nil, nil })},
	{Name: "owns pods as a ReplicaSet", Steps: 1, Mutation: controllers.Instead("create", "pods",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			r.Body.(*corev1.Pod).OwnerReferences[0].Kind = "ReplicaSet"
			return serve()
		})},
	{Name: "reports no failure", Steps: 3, Mutation: controllers.Instead("update", "replicationcontrollers",
		func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
			r.Body.(*corev1.ReplicationController).Status.Conditions = nil
			return serve()
		})},
}

// TestMutantsOfReplicationControllersAreFound checks that a short history shows each mutant.
func TestMutantsOfReplicationControllersAreFound(t *testing.T) {
	replicationPair.FindMutants(t, drawReplication, replicationMutants)
}

// An rcChange is a change of the ReplicationController, in words.
type rcChange struct {
	text   string
	change func(*corev1.ReplicationController)
}

func (c rcChange) String() string { return c.text }

type createRC struct{ changes []rcChange }

func (c createRC) String() string {
	return "create the ReplicationController: " + histories.Join(c.changes)
}

func (c createRC) Do(w *world) error {
	rc := &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Name: "rc"},
		Spec: corev1.ReplicationControllerSpec{Selector: map[string]string{"app": "web"}, Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "image:0"}}},
		}},
	}
	for _, change := range c.changes {
		change.change(rc)
	}
	_, err := w.Client.CoreV1().ReplicationControllers("default").Create(ctx, rc, metav1.CreateOptions{})
	return controllers.IgnoreMissing(err)
}

type editRC struct{ changes []rcChange }

func (e editRC) String() string {
	return "edit the ReplicationController: " + histories.Join(e.changes)
}

func (e editRC) Do(w *world) error {
	rc, ok := histories.Stored[*corev1.ReplicationController](w.Server, "replicationcontrollers", "default", "rc")
	if !ok {
		return nil
	}
	for _, change := range e.changes {
		change.change(rc)
	}
	_, err := w.Client.CoreV1().ReplicationControllers("default").Update(ctx, rc, metav1.UpdateOptions{})
	return controllers.IgnoreMissing(err)
}

// deleteRC deletes the ReplicationController. With orphan its pods lose it as their owner.
type deleteRC struct{ orphan bool }

func (d deleteRC) String() string {
	return fmt.Sprintf("delete the ReplicationController, orphan %v", d.orphan)
}

func (d deleteRC) Do(w *world) error {
	return w.Down(func() error {
		for _, pod := range w.pods() {
			if !d.orphan || len(pod.OwnerReferences) == 0 {
				continue
			}
			pod.OwnerReferences = nil
			if _, err := w.Client.CoreV1().Pods("default").Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
				return err
			}
		}
		err := w.Client.CoreV1().ReplicationControllers("default").Delete(ctx, "rc",
			metav1.DeleteOptions{PropagationPolicy: ptr.To(metav1.DeletePropagationBackground)})
		return controllers.IgnoreMissing(err)
	})
}

// createOrphan creates a pod without an owner, unless pods are forbidden.
type createOrphan struct{ app string }

func (c createOrphan) String() string { return "create a pod with app=" + c.app }

func (c createOrphan) Do(w *world) error {
	_, err := w.Client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "rc-", Labels: map[string]string{"app": c.app}},
		Spec:       corev1.PodSpec{NodeName: "node", Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
	}, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	return controllers.IgnoreMissing(err)
}

// limitPods forbids the creation of all pods, or allows it again. The change of an annotation requeues the
// ReplicationController.
type limitPods struct{ on bool }

func (l limitPods) String() string { return fmt.Sprintf("pods are forbidden: %v", l.on) }

func (l limitPods) Do(w *world) error {
	limits := w.Client.CoreV1().LimitRanges("default")
	var err error
	if l.on {
		_, err = limits.Create(ctx, &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "limits"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
				Type: corev1.LimitTypePod, Min: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
			}}},
		}, metav1.CreateOptions{})
	} else {
		err = limits.Delete(ctx, "limits", metav1.DeleteOptions{})
	}
	if controllers.IgnoreMissing(err) != nil {
		return err
	}
	return editRC{[]rcChange{{"", func(rc *corev1.ReplicationController) {
		metav1.SetMetaDataAnnotation(&rc.ObjectMeta, "forbidden", fmt.Sprint(l.on))
	}}}}.Do(w)
}

var drawRCChange = rapid.Custom(func(t *rapid.T) rcChange {
	switch histories.OneOf("replicas", "replicas", "replicas", "image", "ready", "label", "selector").Draw(t, "kind") {
	case "image":
		image := drawImage.Draw(t, "image")
		return rcChange{image, func(rc *corev1.ReplicationController) { rc.Spec.Template.Spec.Containers[0].Image = image }}
	case "ready":
		n := histories.OneOf[int32](0, 0, 3, 12).Draw(t, "seconds")
		return rcChange{fmt.Sprintf("minReadySeconds %d", n), func(rc *corev1.ReplicationController) { rc.Spec.MinReadySeconds = n }}
	case "label":
		value := histories.OneOf("1", "2").Draw(t, "version")
		return rcChange{"template version=" + value, func(rc *corev1.ReplicationController) {
			rc.Spec.Template.Labels["version"] = value
		}}
	case "selector":
		value := histories.OneOf("other", "web").Draw(t, "app")
		return rcChange{"selects app=" + value, func(rc *corev1.ReplicationController) {
			rc.Spec.Selector["app"], rc.Spec.Template.Labels["app"] = value, value
		}}
	default:
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		return rcChange{fmt.Sprintf("replicas %d", n), func(rc *corev1.ReplicationController) { rc.Spec.Replicas = &n }}
	}
})

var drawRCCreation = rapid.Custom(func(t *rapid.T) act {
	n := rapid.Int32Range(1, 5).Draw(t, "replicas")
	c := createRC{[]rcChange{{fmt.Sprintf("replicas %d", n), func(rc *corev1.ReplicationController) { rc.Spec.Replicas = &n }}}}
	c.changes = append(c.changes, rapid.SliceOfN(drawRCChange, 0, 2).Draw(t, "changes")...)
	return c
})

var drawRCAct = rapid.Custom(func(t *rapid.T) act {
	switch histories.OneOf("edit", "edit", "edit", "edit", "pod", "pod", "orphan", "image", "limit", "create", "delete").Draw(t, "act") {
	case "edit":
		return editRC{rapid.SliceOfN(drawRCChange, 1, 2).Draw(t, "changes")}
	case "pod":
		return drawPodAct.Draw(t, "kind")
	case "orphan":
		return createOrphan{histories.OneOf("web", "other").Draw(t, "app")}
	case "image":
		return breakImage{drawImage.Draw(t, "image"), !histories.OneIn(t, 3, "repaired"), false}
	case "limit":
		return limitPods{!histories.OneIn(t, 3, "allowed")}
	case "create":
		return drawRCCreation.Draw(t, "kind")
	default:
		return deleteRC{histories.OneIn(t, 2, "orphan")}
	}
})

var drawRCStep = rapid.Custom(func(t *rapid.T) step {
	s := step{Act: drawRCAct.Draw(t, "act")}
	if histories.OneIn(t, 10, "restart") {
		s.Act = restart{Meanwhile: s.Act}
	}
	if histories.OneIn(t, 8, "faulty") {
		s.Fault = histories.Fault{Kind: sim.FaultRefused, Request: histories.OneOf("create pods", "delete pods", "patch pods",
			"update/status replicationcontrollers").Draw(t, "request")}
	}
	return s
})

// drawReplication draws a history. The ReplicationController is created first.
var drawReplication = rapid.Custom(func(t *rapid.T) history {
	return append(history{{Act: drawRCCreation.Draw(t, "rc")}}, histories.DrawSteps(t, drawRCStep, 5, 3)...)
})
