package pvcontroller

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// drafter draws volumes and claims with all fields that matching reads. Plain ones differ in size,
// labels and selector only, so that many are on one shelf.
type drafter struct {
	plain     bool
	selectors []*metav1.LabelSelector // selectors of claims, repeated with other values
}

var (
	volumeModes = []*corev1.PersistentVolumeMode{
		nil, ptr.To(corev1.PersistentVolumeFilesystem), ptr.To(corev1.PersistentVolumeBlock),
	}
	attributes  = []*string{nil, nil, ptr.To(""), ptr.To("fast")}
	labelKeys   = []string{"bar", "foo", "qux"}
	labelValues = []string{"a", "b", "c", "", samePlace[0], samePlace[1]}
)

func drawName(t *rapid.T) string {
	return rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}).Draw(t, "name")
}

func (d drafter) volume(t *rapid.T, version string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
		Name: drawName(t), UID: "u", ResourceVersion: version, Labels: drawLabels(t),
	}}
	v.Spec.Capacity = drawAmount(t, "capacity")
	v.Spec.AccessModes = allModes[:1]
	v.Status.Phase = corev1.VolumeAvailable
	if !d.plain {
		drawVolumeOddities(t, v)
	}
	return v
}

func drawVolumeOddities(t *rapid.T, v *corev1.PersistentVolume) {
	v.Spec.AccessModes = drawModes(t)
	v.Spec.StorageClassName = rapid.SampledFrom([]string{"", "", "gold"}).Draw(t, "class")
	v.Spec.VolumeMode = rapid.SampledFrom(volumeModes).Draw(t, "mode")
	v.Spec.VolumeAttributesClassName = rapid.SampledFrom(attributes).Draw(t, "attributes")
	v.Annotations = drawBetaClass(t)
	if rapid.IntRange(0, 9).Draw(t, "deleting") == 9 {
		v.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	v.Status.Phase = rapid.SampledFrom([]corev1.PersistentVolumePhase{
		corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable, corev1.VolumeAvailable,
		corev1.VolumePending, corev1.VolumeBound, corev1.VolumeReleased, corev1.VolumeFailed,
	}).Draw(t, "phase")
	if rapid.IntRange(0, 3).Draw(t, "reserved") == 3 {
		v.Spec.ClaimRef = &corev1.ObjectReference{
			Namespace: rapid.SampledFrom([]string{"default", "default", "other"}).Draw(t, "namespace"),
			Name:      rapid.SampledFrom([]string{"c", "c", "d"}).Draw(t, "claim"),
			UID:       types.UID(rapid.SampledFrom([]string{"", "u1", "u2"}).Draw(t, "uid")),
		}
	}
}

func (d drafter) claim(t *rapid.T) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u1"}}
	claim.Spec.Resources.Requests = drawAmount(t, "request")
	claim.Spec.AccessModes = allModes[:1]
	claim.Spec.Selector = otherValues(t, rapid.SampledFrom(d.selectors).Draw(t, "selector"))
	if !d.plain {
		claim.Spec.AccessModes = drawModes(t)
		claim.Spec.StorageClassName = rapid.SampledFrom([]*string{nil, nil, ptr.To(""), ptr.To("gold")}).Draw(t,
			"class")
		claim.Spec.VolumeMode = rapid.SampledFrom(volumeModes).Draw(t, "mode")
		claim.Spec.VolumeAttributesClassName = rapid.SampledFrom(attributes).Draw(t, "attributes")
		claim.Annotations = drawBetaClass(t)
	}
	return claim
}

// drawModes draws access modes: mostly one, sometimes none or one that is unknown, in any order,
// and even twice.
func drawModes(t *rapid.T) []corev1.PersistentVolumeAccessMode {
	modes := append(slices.Clone(allModes), corev1.ReadWriteOnce, corev1.ReadWriteOnce, "Unknown")
	least := min(1, rapid.IntRange(0, 5).Draw(t, "any mode"))
	return rapid.SliceOfN(rapid.SampledFrom(modes), least, 3).Draw(t, "modes")
}

func drawBetaClass(t *rapid.T) map[string]string {
	if rapid.IntRange(0, 5).Draw(t, "annotated") < 5 {
		return nil
	}
	return map[string]string{
		corev1.BetaStorageClassAnnotation: rapid.SampledFrom([]string{"", "gold"}).Draw(t, "beta class"),
	}
}

// drawAmount draws a few sizes often, so that there are ties, and otherwise any size.
func drawAmount(t *rapid.T, label string) corev1.ResourceList {
	var q resource.Quantity
	switch n := rapid.IntRange(0, 6).Draw(t, label); n {
	case 0:
		return nil
	case 5:
		q = resource.MustParse(rapid.SampledFrom([]string{"500m", "1", "1000m", "1001m", "1500m", "2"}).Draw(t, label))
	case 6:
		q = drawQuantity(t, label)
	default:
		q = gib(n)
	}
	return corev1.ResourceList{corev1.ResourceStorage: q}
}

func drawLabels(t *rapid.T) map[string]string {
	set := map[string]string{}
	for _, key := range labelKeys {
		if rapid.IntRange(0, 2).Draw(t, "has "+key) > 0 {
			set[key] = rapid.SampledFrom(labelValues).Draw(t, key)
		}
	}
	return set
}

func drawSelectors(t *rapid.T) []*metav1.LabelSelector {
	return rapid.SliceOfN(rapid.Custom(drawSelector), 1, 4).Draw(t, "selectors")
}

// otherValues draws a selector of the same form.
func otherValues(t *rapid.T, selector *metav1.LabelSelector) *metav1.LabelSelector {
	selector = selector.DeepCopy()
	if selector == nil {
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(selector.MatchLabels)) {
		selector.MatchLabels[key] = rapid.SampledFrom(labelValues).Draw(t, key)
	}
	for _, r := range selector.MatchExpressions {
		if r.Operator == metav1.LabelSelectorOpIn && len(r.Values) > 0 {
			r.Values[0] = rapid.SampledFrom(labelValues).Draw(t, r.Key)
		}
	}
	return selector
}

// drawSelector draws labels and expressions. Some are contradictory, and a few list more values
// than a query has places for.
func drawSelector(t *rapid.T) *metav1.LabelSelector {
	if rapid.IntRange(0, 3).Draw(t, "selects") == 0 {
		return nil
	}
	selector := &metav1.LabelSelector{}
	for _, key := range labelKeys {
		if rapid.IntRange(0, 3).Draw(t, "matches "+key) == 3 {
			selector.MatchLabels = map[string]string{key: rapid.SampledFrom(labelValues).Draw(t, key)}
		}
	}
	for range rapid.IntRange(0, 3).Draw(t, "expressions") {
		selector.MatchExpressions = append(selector.MatchExpressions, drawExpression(t))
	}
	return selector
}

func drawExpression(t *rapid.T) metav1.LabelSelectorRequirement {
	r := metav1.LabelSelectorRequirement{
		Key: rapid.SampledFrom(labelKeys).Draw(t, "key"),
		Operator: rapid.SampledFrom([]metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn,
			metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}).Draw(t, "operator"),
	}
	if rapid.IntRange(0, 49).Draw(t, "senseless") == 49 {
		return metav1.LabelSelectorRequirement{Key: "foo", Operator: metav1.LabelSelectorOpIn}
	}
	if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
		r.Values = rapid.SliceOfN(rapid.SampledFrom(labelValues), 1, 4).Draw(t, "values")
	}
	if r.Operator == metav1.LabelSelectorOpIn && rapid.IntRange(0, 3).Draw(t, "many") == 3 {
		r.Values = append(r.Values, "d", "e", "f", "g", "h", "i", "j", "k")
	}
	return r
}
