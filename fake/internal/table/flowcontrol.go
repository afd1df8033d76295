package table

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volsim/volsim/fake"
)

var podTemplateColumns = []metav1.TableColumnDefinition{
	name,
	text("Containers", "Names of each container in the template."),
	text("Images", "Images referenced by each container in the template."),
	text("Pod Labels", "The labels for the pod template."),
}

func podTemplateCells(p *corev1.PodTemplate, _ clock) []any {
	names, images := containerCells(p.Template.Spec.Containers)
	return []any{p.Name, names, images, labels.FormatLabels(p.Template.Labels)}
}

func runtimeClassCells(c *nodev1.RuntimeClass, now clock) []any {
	return []any{c.Name, c.Handler, now.since(c.CreationTimestamp)}
}

var flowSchema = schema.GroupKind{Group: flowcontrolv1.GroupName, Kind: "FlowSchema"}

var flowSchemaColumns = []metav1.TableColumnDefinition{
	name,
	text("PriorityLevel", doc(flowcontrolv1.PriorityLevelConfigurationReference{}, "name")),
	text("MatchingPrecedence", doc(flowcontrolv1.FlowSchemaSpec{}, "matchingPrecedence")),
	text("DistinguisherMethod", doc(flowcontrolv1.FlowSchemaSpec{}, "distinguisherMethod")),
	age,
	text("MissingPL", "references a broken or non-existent PriorityLevelConfiguration"),
}

func flowSchemaCells(f *flowcontrolv1.FlowSchema, now clock) []any {
	method, missing := none, "?"
	if m := f.Spec.DistinguisherMethod; m != nil {
		method = string(m.Type)
	}
	for _, c := range f.Status.Conditions {
		if c.Type == flowcontrolv1.FlowSchemaConditionDangling {
			missing = string(c.Status)
			break
		}
	}
	return []any{
		f.Name, f.Spec.PriorityLevelConfiguration.Name, f.Spec.MatchingPrecedence, method, now.since(f.CreationTimestamp), missing,
	}
}

// byPrecedence returns flow schemas in the order in which they are tried.
func byPrecedence(objects []fake.Object) []fake.Object {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b fake.Object) int {
		f, g := a.(*flowcontrolv1.FlowSchema), b.(*flowcontrolv1.FlowSchema)
		return cmp.Or(cmp.Compare(f.Spec.MatchingPrecedence, g.Spec.MatchingPrecedence), cmp.Compare(f.Name, g.Name))
	})
}

var priorityLevelColumns = []metav1.TableColumnDefinition{
	name,
	text("Type", doc(flowcontrolv1.PriorityLevelConfigurationSpec{}, "type")),
	text("NominalConcurrencyShares", doc(flowcontrolv1.LimitedPriorityLevelConfiguration{}, "nominalConcurrencyShares")),
	text("Queues", doc(flowcontrolv1.QueuingConfiguration{}, "queues")),
	text("HandSize", doc(flowcontrolv1.QueuingConfiguration{}, "handSize")),
	text("QueueLengthLimit", doc(flowcontrolv1.QueuingConfiguration{}, "queueLengthLimit")),
	age,
}

func priorityLevelCells(p *flowcontrolv1.PriorityLevelConfiguration, now clock) []any {
	var shares, queues, hand, length any = none, none, none, none
	if l := p.Spec.Limited; l != nil {
		shares = l.NominalConcurrencyShares
		if q := l.LimitResponse.Queuing; q != nil {
			queues, hand, length = q.Queues, q.HandSize, q.QueueLengthLimit
		}
	}
	return []any{p.Name, string(p.Spec.Type), shares, queues, hand, length, now.since(p.CreationTimestamp)}
}
