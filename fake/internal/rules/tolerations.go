package rules

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// tolerationSeconds is how long a pod stays on a node that is not ready or not reachable.
const tolerationSeconds = 300

// AddDefaultTolerations adds the tolerations for nodes that are not ready or not reachable, unless
// the spec has tolerations for them.
//
// Upstream: plugin/pkg/admission/defaulttolerationseconds.
func AddDefaultTolerations(spec *corev1.PodSpec) {
	for _, key := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		if !tolerates(spec.Tolerations, key) {
			spec.Tolerations = append(spec.Tolerations, corev1.Toleration{
				Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute,
				TolerationSeconds: ptr.To(int64(tolerationSeconds)),
			})
		}
	}
}

// tolerates reports whether a toleration covers a NoExecute taint.
func tolerates(all []corev1.Toleration, key string) bool {
	for _, t := range all {
		if (t.Key == key || t.Key == "") && (t.Effect == corev1.TaintEffectNoExecute || t.Effect == "") {
			return true
		}
	}
	return false
}
