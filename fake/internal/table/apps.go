package table

import (
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
)

// The columns of workloads.
var (
	containersColumn = wide(text("Containers", "Names of each container in the template."))
	imagesColumn     = wide(text("Images", "Images referenced by each container in the template."))
)

// containerCells returns the cells with the names and the images of containers.
func containerCells(containers []corev1.Container) (names, images string) {
	var n, i []string
	for _, c := range containers {
		n, i = append(n, c.Name), append(i, c.Image)
	}
	return strings.Join(n, ","), strings.Join(i, ",")
}

var statefulColumns = []metav1.TableColumnDefinition{
	name, text("Ready", "Number of the pod with ready state"), age, containersColumn, imagesColumn,
}

func statefulCells(s *appsv1.StatefulSet, now clock) []any {
	names, images := containerCells(s.Spec.Template.Spec.Containers)
	return []any{
		s.Name, readyOf(s.Status.ReadyReplicas, s.Spec.Replicas), now.since(s.CreationTimestamp), names, images,
	}
}

// readyOf returns ready/wanted. wanted defaults to 1.
func readyOf(ready int32, wanted *int32) string {
	return fmt.Sprintf("%d/%d", ready, ptr.Deref(wanted, 1))
}

var deploymentColumns = []metav1.TableColumnDefinition{
	name,
	text("Ready", "Number of the pod with ready state"),
	text("Up-to-date", doc(appsv1.DeploymentStatus{}, "updatedReplicas")),
	text("Available", doc(appsv1.DeploymentStatus{}, "availableReplicas")),
	age, containersColumn, imagesColumn,
	wide(text("Selector", doc(appsv1.DeploymentSpec{}, "selector"))),
}

func deploymentCells(d *appsv1.Deployment, now clock) []any {
	selector := "<invalid>"
	if s, err := metav1.LabelSelectorAsSelector(d.Spec.Selector); err == nil {
		selector = s.String()
	}
	names, images := containerCells(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, readyOf(d.Status.ReadyReplicas, d.Spec.Replicas), int64(d.Status.UpdatedReplicas),
		int64(d.Status.AvailableReplicas),
		now.since(d.CreationTimestamp), names, images, selector,
	}
}

var replicaSetColumns = []metav1.TableColumnDefinition{
	name,
	number("Desired", doc(appsv1.ReplicaSetSpec{}, "replicas")),
	number("Current", doc(appsv1.ReplicaSetStatus{}, "replicas")),
	number("Ready", doc(appsv1.ReplicaSetStatus{}, "readyReplicas")),
	age, containersColumn, imagesColumn,
	wide(text("Selector", doc(appsv1.ReplicaSetSpec{}, "selector"))),
}

func replicaSetCells(s *appsv1.ReplicaSet, now clock) []any {
	names, images := containerCells(s.Spec.Template.Spec.Containers)
	return []any{
		s.Name, int64(ptr.Deref(s.Spec.Replicas, 1)), int64(s.Status.Replicas), int64(s.Status.ReadyReplicas),
		now.since(s.CreationTimestamp), names, images, metav1.FormatLabelSelector(s.Spec.Selector),
	}
}

var replicationColumns = []metav1.TableColumnDefinition{
	name,
	number("Desired", doc(corev1.ReplicationControllerSpec{}, "replicas")),
	number("Current", doc(corev1.ReplicationControllerStatus{}, "replicas")),
	number("Ready", doc(corev1.ReplicationControllerStatus{}, "readyReplicas")),
	age, containersColumn, imagesColumn,
	wide(text("Selector", doc(corev1.ReplicationControllerSpec{}, "selector"))),
}

func replicationCells(r *corev1.ReplicationController, now clock) []any {
	var containers []corev1.Container
	if r.Spec.Template != nil {
		containers = r.Spec.Template.Spec.Containers
	}
	names, images := containerCells(containers)
	return []any{
		r.Name, int64(ptr.Deref(r.Spec.Replicas, 1)), int64(r.Status.Replicas), int64(r.Status.ReadyReplicas),
		now.since(r.CreationTimestamp), names, images, labels.FormatLabels(r.Spec.Selector),
	}
}

var daemonColumns = []metav1.TableColumnDefinition{
	name,
	number("Desired", doc(appsv1.DaemonSetStatus{}, "desiredNumberScheduled")),
	number("Current", doc(appsv1.DaemonSetStatus{}, "currentNumberScheduled")),
	number("Ready", doc(appsv1.DaemonSetStatus{}, "numberReady")),
	number("Up-to-date", doc(appsv1.DaemonSetStatus{}, "updatedNumberScheduled")),
	number("Available", doc(appsv1.DaemonSetStatus{}, "numberAvailable")),
	text("Node Selector", doc(corev1.PodSpec{}, "nodeSelector")),
	age, containersColumn, imagesColumn,
	wide(text("Selector", doc(appsv1.DaemonSetSpec{}, "selector"))),
}

func daemonCells(d *appsv1.DaemonSet, now clock) []any {
	names, images := containerCells(d.Spec.Template.Spec.Containers)
	return []any{
		d.Name, int64(d.Status.DesiredNumberScheduled), int64(d.Status.CurrentNumberScheduled),
		int64(d.Status.NumberReady),
		int64(d.Status.UpdatedNumberScheduled), int64(d.Status.NumberAvailable),
		labels.FormatLabels(d.Spec.Template.Spec.NodeSelector),
		now.since(d.CreationTimestamp), names, images, metav1.FormatLabelSelector(d.Spec.Selector),
	}
}

var revisionColumns = []metav1.TableColumnDefinition{
	name, text("Controller", "Controller of the object"),
	text("Revision", doc(appsv1.ControllerRevision{}, "revision")), age,
}

func revisionCells(r *appsv1.ControllerRevision, now clock) []any {
	controller := none
	if ref := metav1.GetControllerOfNoCopy(r); ref != nil {
		gk := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind).GroupKind()
		controller = strings.ToLower(gk.String()) + "/" + ref.Name
	}
	return []any{r.Name, controller, r.Revision, now.since(r.CreationTimestamp)}
}

var scaleColumns = []metav1.TableColumnDefinition{
	text("Name", doc(metav1.ObjectMeta{}, "name")),
	number("Desired", doc(autoscalingv1.ScaleSpec{}, "replicas")),
	number("Available", doc(autoscalingv1.ScaleStatus{}, "replicas")),
	age,
}

func scaleCells(s *autoscalingv1.Scale, now clock) []any {
	return []any{s.Name, int64(s.Spec.Replicas), int64(s.Status.Replicas), now.since(s.CreationTimestamp)}
}
