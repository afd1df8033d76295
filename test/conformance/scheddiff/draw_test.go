package scheddiff

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	volsim "github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/test/conformance/histories"
)

const (
	driver    = "csi.example.com"
	namespace = "default"
)

// A draw draws a world.
type draw struct {
	*rapid.T

	nodes, claims []string
	objects       []volsim.Object
}

func (d *draw) add(obj volsim.Object) {
	obj.SetUID(types.UID(fmt.Sprintf("%T/%s", obj, obj.GetName())))
	d.objects = append(d.objects, obj)
}

func (d *draw) oneIn(n int, label string) bool { return histories.OneIn(d.T, n, label) }

func (d *draw) of(label string, from ...string) string {
	return histories.OneOf(from...).Draw(d.T, label)
}

func (d *draw) count(most int, label string) int { return rapid.IntRange(0, most).Draw(d.T, label) }

func (d *draw) quantity(label string, from ...string) resource.Quantity {
	return resource.MustParse(d.of(label, from...))
}

func (d *draw) node(name string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if zone := d.of("zone", "", "a", "b"); zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	if d.oneIn(4, "disk") {
		n.Labels["disk"] = "ssd"
	}
	if d.oneIn(5, "tainted") {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{
			Key: "k", Value: d.of("taint value", "v", "w"),
			Effect: histories.OneOf(corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute).Draw(d.T, "effect"),
		})
	}
	if d.oneIn(8, "unschedulable") {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: d.quantity("cpu", "4", "2", "1"), corev1.ResourceMemory: d.quantity("memory", "8Gi", "2Gi"),
		corev1.ResourcePods: d.quantity("pods", "110", "2"),
	}
	if d.oneIn(5, "gpus") {
		n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
	}
	n.Status.Capacity = n.Status.Allocatable
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	d.add(n)
	if d.oneIn(6, "no CSINode") {
		return
	}
	csi := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}}
	csi.Spec.Drivers = []storagev1.CSINodeDriver{{Name: driver, NodeID: name, TopologyKeys: []string{corev1.LabelTopologyZone}}}
	if limit := d.count(3, "limit"); limit > 0 {
		csi.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(limit))}
	}
	d.add(csi)
}

func (d *draw) classes() {
	d.add(&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: ptr.To(true), StorageCapacity: ptr.To(d.oneIn(2, "capacity is known")),
	}})
	for value := range int32(3) {
		d.add(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: priorityClass(value)}, Value: value})
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "late"}, Provisioner: driver, VolumeBindingMode: &late}
	if zone := d.of("allowed", "", "a", "b"); zone != "" {
		class.AllowedTopologies = []corev1.TopologySelectorTerm{{MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{{
			Key: corev1.LabelTopologyZone, Values: []string{zone},
		}}}}
	}
	d.add(class)
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "local"}, Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late})
	d.add(&storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "now"}, Provisioner: driver, VolumeBindingMode: ptr.To(storagev1.VolumeBindingImmediate)})
	for i := range d.count(2, "capacities") {
		c := &storagev1.CSIStorageCapacity{
			ObjectMeta:       metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("capacity-", i)},
			StorageClassName: "late", NodeTopology: &metav1.LabelSelector{},
		}
		if zone := d.of("capacity's zone", "", "a"); zone != "" {
			c.NodeTopology.MatchLabels = map[string]string{corev1.LabelTopologyZone: zone}
		}
		c.Capacity = ptr.To(d.quantity("capacity", "5Gi", "1Gi", "0"))
		if d.oneIn(3, "maximum") {
			c.MaximumVolumeSize = ptr.To(d.quantity("maximum size", "1Gi", "5Gi"))
		}
		d.add(c)
	}
}

func priorityClass(value int32) string { return fmt.Sprint("priority-", value) }

var modes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadWriteOncePod}

func (d *draw) mode() []corev1.PersistentVolumeAccessMode {
	return []corev1.PersistentVolumeAccessMode{histories.OneOf(modes...).Draw(d.T, "mode")}
}

// volume draws a volume of a class.
func (d *draw) volume(name, class string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	v.Spec.StorageClassName, v.Spec.AccessModes, v.Spec.VolumeMode = class, d.mode(), ptr.To(corev1.PersistentVolumeFilesystem)
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: d.quantity("size", "1Gi", "2Gi", "5Gi")}
	v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: name}
	v.Status.Phase = corev1.VolumeAvailable
	if d.oneIn(2, "affinity") {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{d.of("volume's node", append(d.nodes, "node-9")...)},
			}},
		}}}}
	}
	if zone := d.of("volume's zone", "", "", "a", "a__b"); zone != "" {
		v.Labels[corev1.LabelTopologyZone] = zone
	}
	if d.oneIn(3, "label") {
		v.Labels["kind"] = "fast"
	}
	d.add(v)
	return v
}

func (d *draw) claim(name string) {
	c := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: map[string]string{}}}
	class := d.of("class", "late", "local", "local", "now", "missing")
	c.Spec.StorageClassName, c.Spec.VolumeMode = &class, ptr.To(corev1.PersistentVolumeFilesystem)
	c.Spec.AccessModes = d.mode()
	c.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: d.quantity("request", "1Gi", "2Gi", "5Gi")}
	c.Status.Phase = corev1.ClaimPending
	switch d.of("state", "unbound", "unbound", "bound", "bound", "lost", "selecting", "prebound", "gone") {
	case "bound":
		v := d.volume("of-"+name, class)
		v.Spec.AccessModes = c.Spec.AccessModes
		c.Spec.VolumeName, c.Status.Phase, v.Status.Phase = v.Name, corev1.ClaimBound, corev1.VolumeBound
		c.Annotations[volume.AnnBindCompleted] = "yes"
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name, UID: types.UID(fmt.Sprintf("%T/%s", c, name))}
	case "lost":
		c.Spec.VolumeName, c.Status.Phase = "gone", corev1.ClaimLost
		c.Annotations[volume.AnnBindCompleted] = "yes"
	case "gone":
		c.Spec.VolumeName, c.Status.Phase = "gone", corev1.ClaimBound
		c.Annotations[volume.AnnBindCompleted] = "yes"
	case "selecting":
		c.Annotations[volume.AnnSelectedNode] = d.of("selected", d.nodes...)
	case "prebound":
		v := d.volume("for-"+name, class)
		v.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: namespace, Name: name}
	}
	if d.oneIn(8, "selector") {
		c.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"kind": "fast"}}
	}
	d.add(c)
	d.claims = append(d.claims, name)
}

// pod draws a pod. Those that run already have a node.
func (d *draw) pod(name, node string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": d.of("app", "a", "b")}}}
	p.Spec.SchedulerName, p.Spec.NodeName, p.Spec.RestartPolicy = corev1.DefaultSchedulerName, node, corev1.RestartPolicyAlways
	p.Spec.TerminationGracePeriodSeconds = ptr.To(int64(30))
	c := corev1.Container{Name: "c", Image: "i", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "example.com/gpu"} {
		from := map[corev1.ResourceName][]string{corev1.ResourceCPU: {"", "1", "2", "3"}, corev1.ResourceMemory: {"", "1Gi", "3Gi"}, "example.com/gpu": {"", "", "", "1"}}[r]
		if amount := d.of(string(r), from...); amount != "" {
			c.Resources.Requests[r] = resource.MustParse(amount)
		}
	}
	if d.oneIn(6, "port") && (node == "" || name == "running-0") { // two of a node do not conflict
		c.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 80, Protocol: corev1.ProtocolTCP, HostIP: d.of("address", "", "10.0.0.1", "10.0.0.2")}}
	}
	p.Spec.Containers = []corev1.Container{c}
	for i := range d.count(2, "claims") {
		if claim := d.of("claim", append(d.claims, "missing")...); !strings.Contains(fmt.Sprint(p.Spec.Volumes), claim) {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
			}})
		}
	}
	priority := int32(d.count(2, "priority"))
	p.Spec.PriorityClassName = priorityClass(priority)
	if node != "" { // otherwise the API server sets it
		p.Spec.Priority, p.Spec.PreemptionPolicy = &priority, ptr.To(corev1.PreemptLowerPriority)
	}
	if d.oneIn(4, "tolerates") {
		p.Spec.Tolerations = []corev1.Toleration{{Key: "k", Operator: corev1.TolerationOpEqual, Value: "v"}}
	}
	if d.oneIn(6, "selector") {
		p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	}
	d.affinity(p)
	d.spread(p)
	d.add(p)
	return p
}

func (d *draw) affinity(p *corev1.Pod) {
	kind := d.of("affinity", "", "", "", "", "named", "zone", "preferred", "pods", "against", "preferred pods", "preferred against")
	if kind == "" {
		return
	}
	p.Spec.Affinity = &corev1.Affinity{}
	zone := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}
	named := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"node-1"}}}}
	pods := corev1.PodAffinityTerm{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": d.of("other app", "a", "b")}},
		TopologyKey:   d.of("topology", corev1.LabelHostname, corev1.LabelTopologyZone),
	}
	switch kind {
	case "named", "zone":
		term := map[string]corev1.NodeSelectorTerm{"named": named, "zone": zone}[kind]
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}
	case "preferred":
		p.Spec.Affinity.NodeAffinity = &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 5, Preference: zone}}}
	case "pods":
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{pods}}
	case "against":
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{pods}}
	case "preferred pods":
		p.Spec.Affinity.PodAffinity = &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 5, PodAffinityTerm: pods}}}
	case "preferred against":
		p.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 5, PodAffinityTerm: pods}}}
	}
}

func (d *draw) spread(p *corev1.Pod) {
	if !d.oneIn(4, "spread") {
		return
	}
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: d.of("spread over", corev1.LabelTopologyZone, corev1.LabelHostname),
		WhenUnsatisfiable: histories.OneOf(corev1.DoNotSchedule, corev1.ScheduleAnyway).Draw(d.T, "unsatisfiable"),
		LabelSelector:     &metav1.LabelSelector{MatchLabels: p.Labels},
	}}
}

// drawWorld draws the objects of a world, and pods to be created.
func drawWorld(t *rapid.T) (objects []volsim.Object, pods []*corev1.Pod) {
	d := &draw{T: t}
	for i := range 1 + d.count(3, "nodes") {
		d.nodes = append(d.nodes, fmt.Sprint("node-", i+1))
	}
	for _, name := range d.nodes {
		d.node(name)
	}
	d.classes()
	for i := range d.count(3, "volumes") {
		d.volume(fmt.Sprint("volume-", i), d.of("volume's class", "local", "late"))
	}
	for i := range 1 + d.count(3, "claims") {
		d.claim(fmt.Sprint("claim-", i))
	}
	for i := range d.count(3, "running") {
		p := d.pod(fmt.Sprint("running-", i), d.of("on", d.nodes...))
		p.Status.StartTime = &metav1.Time{Time: sim.Epoch.Add(time.Duration(i) * time.Second)}
	}
	objects = d.objects
	for i := range 1 + d.count(2, "pods") {
		pods = append(pods, d.pod(fmt.Sprint("pod-", i), ""))
	}
	return objects, pods
}
