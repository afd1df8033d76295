package attachdetach_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/casefile"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// Do executes an action of a user or another program immediately.
func (r *caseRun) Do(text string) error {
	verb, rest, _ := strings.Cut(text, " ")
	if verb == "delete" {
		return r.remove(strings.Fields(rest))
	}
	objects, err := casefile.ReadObjects(caseKinds, rest)
	if err != nil {
		return err
	}
	for _, obj := range objects {
		r.note(obj)
		if verb == "add" {
			err = r.server.Add(obj)
		} else {
			err = r.set(obj, strings.Contains(rest, " attached="))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// note records the cases' names of attachments.
func (r *caseRun) note(obj runtime.Object) {
	switch o := obj.(type) {
	case *corev1.Node:
		r.nodes = append(r.nodes, o.Name)
	case *corev1.PersistentVolume:
		r.handles = append(r.handles, handleOfVolume(o))
	case *corev1.Pod:
		for i := range o.Spec.Volumes {
			if source := o.Spec.Volumes[i].AWSElasticBlockStore; source != nil {
				r.handles = append(r.handles, awsShort+source.VolumeID)
			}
		}
	case *storagev1.VolumeAttachment:
		r.nodes = append(r.nodes, o.Spec.NodeName)
		if r.called[o.Name] == "" {
			r.handles = append(r.handles, *o.Spec.Source.PersistentVolumeName)
		}
	}
	for _, handle := range r.handles {
		for _, node := range r.nodes {
			r.called[attachmentName(handle, node)] = handle + " " + node
		}
	}
	if a, ok := obj.(*storagev1.VolumeAttachment); ok && a.Status.Attached {
		r.attacher.begin(r.handleOf(a), a.Spec.NodeName)
	}
}

// nameOf returns a case's name of an attachment, "VOLUME NODE".
func (r *caseRun) nameOf(a *storagev1.VolumeAttachment) string { return r.called[a.Name] }

func (r *caseRun) handleOf(a *storagev1.VolumeAttachment) string {
	handle, _, _ := strings.Cut(r.called[a.Name], " ")
	return handle
}

// set replaces an object. The attached volumes in a node's status stay, unless the case sets them.
func (r *caseRun) set(obj runtime.Object, attached bool) error {
	set := obj.(fake.Object)
	resource := resources[fmt.Sprintf("%T", obj)]
	stored, found := r.server.Get(resource, set.GetNamespace(), set.GetName())
	if !found {
		return fmt.Errorf("there is no %s %s", resource, set.GetName())
	}
	set.SetCreationTimestamp(stored.GetCreationTimestamp())
	if n, ok := obj.(*corev1.Node); ok && !attached {
		n.Status.VolumesAttached = stored.(*corev1.Node).Status.VolumesAttached
	}
	if set.GetUID() == "" {
		set.SetUID(stored.GetUID())
	}
	r.server.UpdateStored(resource, set.GetNamespace(), set.GetName(), func(fake.Object) fake.Object { return set })
	return nil
}

// resources are the resources by object type.
var resources = map[string]string{
	"*v1.Node": "nodes", "*v1.PersistentVolume": "persistentvolumes",
	"*v1.PersistentVolumeClaim": "persistentvolumeclaims",
	"*v1.Pod":                   "pods", "*v1.VolumeAttachment": "volumeattachments", "*v1.CSIDriver": "csidrivers",
}

// remove deletes the object that the words name, such as "pod p" or "attachment v n1".
func (r *caseRun) remove(words []string) error {
	if len(words) < 2 && words[0] != "driver" {
		return fmt.Errorf("delete %s: want a name", words[0])
	}
	ctx, user, now := context.Background(), r.server.Client(r.User()), int64(0)
	switch words[0] {
	case "node":
		return user.CoreV1().Nodes().Delete(ctx, words[1], metav1.DeleteOptions{})
	case "volume":
		return user.CoreV1().PersistentVolumes().Delete(ctx, words[1], metav1.DeleteOptions{})
	case "claim":
		namespace, name := namespaced(words[1])
		return user.CoreV1().PersistentVolumeClaims(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	case "pod":
		namespace, name := namespaced(words[1])
		return user.CoreV1().Pods(namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	case "driver":
		return user.StorageV1().CSIDrivers().Delete(ctx, caseDriver, metav1.DeleteOptions{})
	default:
		name := attachmentName(words[1], words[len(words)-1])
		return user.StorageV1().VolumeAttachments().Delete(ctx, name, metav1.DeleteOptions{})
	}
}

// Fault returns the error of a failed request.
func (r *caseRun) Fault(_, text string) error { return errors.New(text) }

// judged checks the requests that take effect.
type judged struct {
	sim.Caller
	run *caseRun
}

func (j judged) Call(action trace.Action, effect func() trace.Outcome) trace.Outcome {
	return j.Caller.Call(action, func() trace.Outcome {
		j.run.judge(action)
		out := effect()
		j.run.judgeReport(out.After)
		return out
	})
}

// judge checks a request that takes effect. No single-node volume is attached to a second node. No
// volume is detached that the node's status lists as attached or in use, unless the node is not
// ready or is tainted as out of service.
func (r *caseRun) judge(action trace.Action) {
	_, name, _ := strings.Cut(action.Object, "/")
	volume, node, found := strings.Cut(r.called[name], " ")
	if !strings.HasPrefix(action.Object, "volumeattachments/") || !found {
		return
	}
	switch action.Verb {
	case "create":
		for _, obj := range r.server.List("volumeattachments") {
			a := obj.(*storagev1.VolumeAttachment)
			if r.handleOf(a) == volume && a.Spec.NodeName != node && r.exclusive(volume) {
				r.Problem("%s must not be attached to %s while it is attached to %s", volume, node, a.Spec.NodeName)
			}
		}
	case "delete":
		obj, found := r.server.Get("nodes", "", node)
		if _, exists := r.server.Get("volumeattachments", "", name); !found || !exists {
			return
		}
		r.judgeDetach(volume, obj.(*corev1.Node))
	}
}

func (r *caseRun) judgeDetach(volume string, node *corev1.Node) {
	unique := uniqueName(volume)
	if slices.ContainsFunc(node.Status.VolumesAttached,
		func(a corev1.AttachedVolume) bool { return a.Name == unique }) {
		r.Problem("%s is detached from %s, whose status lists it as attached", volume, node.Name)
	}
	if slices.Contains(node.Status.VolumesInUse, unique) && !mayForce(node) {
		r.Problem("%s is detached from %s, which is ready and uses it", volume, node.Name)
	}
}

// judgeReport checks a node whose status was written: each listed volume is, or may be, attached
// according to the attacher.
func (r *caseRun) judgeReport(after any) {
	node, ok := after.(*corev1.Node)
	if !ok {
		return
	}
	for _, a := range node.Status.VolumesAttached {
		if volume := called(a.Name); !r.attacher.attached[volume][node.Name] {
			r.Problem("%s lists %s as attached, which is not attached", node.Name, volume)
		}
	}
}

// exclusive reports whether a volume may be attached to one node only.
func (r *caseRun) exclusive(handle string) bool {
	for _, obj := range r.server.List("persistentvolumes") {
		v := obj.(*corev1.PersistentVolume)
		if handleOfVolume(v) == handle {
			return !plugins.MultiAttachAllowed(&plugins.Spec{PersistentVolume: v})
		}
	}
	return false
}

// event records an event of the controller.
func (r *caseRun) event(about runtime.Object, severity, reason, text string) {
	r.AddEvent(fmt.Sprintf("pod %s: %s %s: %s", podName(about.(*corev1.Pod)), severity, reason,
		strings.TrimSuffix(text, " ")))
}
