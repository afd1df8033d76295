package table

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func namespaceCells(n *corev1.Namespace, now clock) []any {
	return []any{n.Name, string(n.Status.Phase), now.since(n.CreationTimestamp)}
}

var nodeColumns = []metav1.TableColumnDefinition{
	name,
	text("Status", "The status of the node"),
	text("Roles", "The roles of the node"),
	age,
	text("Version", doc(corev1.NodeSystemInfo{}, "kubeletVersion")),
	wide(text("Internal-IP", doc(corev1.NodeStatus{}, "addresses"))),
	wide(text("External-IP", doc(corev1.NodeStatus{}, "addresses"))),
	wide(text("OS-Image", doc(corev1.NodeSystemInfo{}, "osImage"))),
	wide(text("Kernel-Version", doc(corev1.NodeSystemInfo{}, "kernelVersion"))),
	wide(text("Container-Runtime", doc(corev1.NodeSystemInfo{}, "containerRuntimeVersion"))),
}

func nodeCells(n *corev1.Node, now clock) []any {
	status := "Unknown"
	for _, c := range n.Status.Conditions {
		switch {
		case c.Type != corev1.NodeReady:
		case c.Status == corev1.ConditionTrue:
			status = "Ready"
		default:
			status = "NotReady"
		}
	}
	if n.Spec.Unschedulable {
		status += ",SchedulingDisabled"
	}
	info := n.Status.NodeInfo
	kernel := valueOr(info.KernelVersion, unknown)
	if info.Architecture != "" {
		kernel += " (" + info.Architecture + ")"
	}
	return []any{
		n.Name, status, valueOr(strings.Join(nodeRoles(n), ","), none), now.since(n.CreationTimestamp),
		info.KubeletVersion,
		nodeAddress(n, corev1.NodeInternalIP), nodeAddress(n, corev1.NodeExternalIP), valueOr(info.OSImage, unknown),
		kernel,
		valueOr(info.ContainerRuntimeVersion, unknown),
	}
}

// nodeRoles returns the roles in a node's labels.
func nodeRoles(n *corev1.Node) []string {
	var roles []string
	for label, value := range n.Labels {
		role, prefixed := strings.CutPrefix(label, "node-role.kubernetes.io/")
		switch {
		case prefixed && role != "":
			roles = append(roles, role)
		case label == "kubernetes.io/role" && value != "":
			roles = append(roles, value)
		}
	}
	slices.Sort(roles)
	return slices.Compact(roles)
}

func nodeAddress(n *corev1.Node, t corev1.NodeAddressType) string {
	for _, a := range n.Status.Addresses {
		if a.Type == t {
			return a.Address
		}
	}
	return none
}

var eventColumns = []metav1.TableColumnDefinition{
	text("Last Seen", doc(corev1.Event{}, "lastTimestamp")),
	text("Type", doc(corev1.Event{}, "type")),
	text("Reason", doc(corev1.Event{}, "reason")),
	text("Object", doc(corev1.Event{}, "involvedObject")),
	wide(text("Subobject", doc(corev1.ObjectReference{}, "fieldPath"))),
	wide(text("Source", doc(corev1.Event{}, "source"))),
	text("Message", doc(corev1.Event{}, "message")),
	wide(text("First Seen", doc(corev1.Event{}, "firstTimestamp"))),
	wide(text("Count", doc(corev1.Event{}, "count"))),
	wide(name),
}

func eventCells(e *corev1.Event, now clock) []any {
	first := now.since(e.FirstTimestamp)
	if e.FirstTimestamp.IsZero() {
		first = now.sinceMicro(e.EventTime)
	}
	last, count := now.since(e.LastTimestamp), e.Count
	if e.LastTimestamp.IsZero() {
		last = first
	}
	switch {
	case e.Series != nil:
		last, count = now.sinceMicro(e.Series.LastObservedTime), e.Series.Count
	case count == 0:
		count = 1 // in events.k8s.io, an event without a series has no count
	}
	about := strings.ToLower(e.InvolvedObject.Kind)
	if e.InvolvedObject.Name != "" {
		about += "/" + e.InvolvedObject.Name
	}
	source := cmp.Or(e.Source.Component, e.ReportingController)
	if instance := cmp.Or(e.Source.Host, e.ReportingInstance); instance != "" {
		source += ", " + instance
	}
	return []any{
		last, e.Type, e.Reason, about, e.InvolvedObject.FieldPath, source, strings.TrimSpace(e.Message), first,
		int64(count), e.Name,
	}
}

// newEventCells shows an event of events.k8s.io like one of the core group.
func newEventCells(e *eventsv1.Event, now clock) []any {
	old := &corev1.Event{
		ObjectMeta: e.ObjectMeta, EventTime: e.EventTime, ReportingController: e.ReportingController,
		ReportingInstance: e.ReportingInstance, Reason: e.Reason, InvolvedObject: e.Regarding, Message: e.Note,
		Type:   e.Type,
		Source: e.DeprecatedSource, FirstTimestamp: e.DeprecatedFirstTimestamp,
		LastTimestamp: e.DeprecatedLastTimestamp,
		Count:         e.DeprecatedCount,
	}
	if e.Series != nil {
		old.Series = &corev1.EventSeries{Count: e.Series.Count, LastObservedTime: e.Series.LastObservedTime}
	}
	return eventCells(old, now)
}

var secretColumns = []metav1.TableColumnDefinition{
	name, text("Type", doc(corev1.Secret{}, "type")), text("Data", doc(corev1.Secret{}, "data")), age,
}

func secretCells(s *corev1.Secret, now clock) []any {
	return []any{s.Name, string(s.Type), int64(len(s.Data)), now.since(s.CreationTimestamp)}
}

var configColumns = []metav1.TableColumnDefinition{name, text("Data", doc(corev1.ConfigMap{}, "data")), age}

func configCells(c *corev1.ConfigMap, now clock) []any {
	return []any{c.Name, int64(len(c.Data) + len(c.BinaryData)), now.since(c.CreationTimestamp)}
}

func accountCells(a *corev1.ServiceAccount, now clock) []any {
	return []any{a.Name, now.since(a.CreationTimestamp)}
}

var quotaColumns = []metav1.TableColumnDefinition{
	name,
	text("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
	text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
	age,
}

func quotaCells(q *corev1.ResourceQuota, now clock) []any {
	var requests, limits []string
	for _, resource := range slices.Sorted(maps.Keys(q.Status.Hard)) {
		used, hard := q.Status.Used[resource], q.Status.Hard[resource]
		cell := fmt.Sprintf("%s: %s/%s", resource, used.String(), hard.String())
		if strings.HasPrefix(string(resource), "limits.") {
			limits = append(limits, cell)
		} else {
			requests = append(requests, cell)
		}
	}
	return []any{q.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), now.since(q.CreationTimestamp)}
}
