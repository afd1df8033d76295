package invariant

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/reuse"
	"github.com/volsim/volsim/sim/trace"
)

// Rules about the default class of a claim.
var classRules = []builtIn{
	{"I13", "a claim's class overwritten, or one assigned that is not the default", beginClass},
}

// defaults records which class is the default.
type defaults struct {
	marked   map[string]metav1.Time // creation times of the classes marked as default
	ever     map[string]bool        // classes that were the default once
	revision int64                  // of the last change of any class
}

func (d *defaults) observe(e fake.Commit) {
	d.revision = e.Revision
	d.mark(e.After.(*storagev1.StorageClass), e.Type == "DELETED")
}

func (d *defaults) mark(class *storagev1.StorageClass, gone bool) {
	delete(d.marked, class.Name)
	if !gone && (class.Annotations["storageclass.kubernetes.io/is-default-class"] == "true" ||
		class.Annotations["storageclass.beta.kubernetes.io/is-default-class"] == "true") {
		d.marked[class.Name] = class.CreationTimestamp
	}
	if name := d.current(); name != "" {
		d.ever[name] = true
	}
}

// current returns the default class: the newest of those marked, of equally new ones the first by
// name; "" if there is none.
//
// Upstream: pkg/volume/util GetDefaultClass (v1.36).
func (d *defaults) current() string {
	best, at := "", metav1.Time{}
	for name, created := range d.marked {
		if best == "" || at.Before(&created) || created.Equal(&at) && name < best {
			best, at = name, created
		}
	}
	return best
}

// beginClass checks that a controller assigns a class only to a claim that has none, by field or by
// annotation. The class must be the newest default, or have been it once, as far as the controller
// could know.
func beginClass(c *Checker) watcher {
	d := &defaults{marked: reuse.Map[string, metav1.Time](c.Reuse), ever: reuse.Map[string, bool](c.Reuse)}
	for _, obj := range c.API.List("storageclasses") {
		d.mark(obj.(*storagev1.StorageClass), false)
	}
	return watcher{
		commits: []string{"storageclasses"},
		commit:  d.observe,
		writes:  claimsOnly,
		write: func(r trace.Record) {
			before, _ := r.Before.(*corev1.PersistentVolumeClaim)
			after, ok := r.After.(*corev1.PersistentVolumeClaim)
			if !ok || before == nil || !tookEffect(r) || !c.controllers.includes(r) {
				return
			}
			was, is := before.Spec.StorageClassName, after.Spec.StorageClassName
			if was == is || was != nil && is != nil && *was == *is {
				return
			}
			beta, annotated := before.Annotations[corev1.BetaStorageClassAnnotation]
			key := after.Namespace + "/" + after.Name
			switch {
			case was != nil:
				c.report("I13", "%s overwrote the class of claim %s, which was %q", r.Task, key, *was)
			case annotated:
				c.report("I13", "%s assigned a class to claim %s, which has class %q by annotation", r.Task, key, beta)
			case !d.ever[*is]:
				c.report("I13", "%s assigned class %s to claim %s, although it never was the default", r.Task, *is, key)
			case *is != d.current() && c.knew(r, key, "storageclasses", d.revision):
				c.report("I13", "%s assigned class %s to claim %s, although it knew that the default is %q",
					r.Task, *is, key, d.current())
			}
		},
	}
}
