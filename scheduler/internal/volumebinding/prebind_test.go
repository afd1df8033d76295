package volumebinding

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// create stores an object, and returns it as stored.
func create[T metav1.Object](w *rig, obj T) T {
	w.Helper()
	obj.SetUID("")
	obj.SetResourceVersion("")
	var stored metav1.Object
	var err error
	switch o := any(obj).(type) {
	case *corev1.Pod:
		stored, err = w.User.CoreV1().Pods(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *corev1.Node:
		stored, err = w.User.CoreV1().Nodes().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.PersistentVolume:
		stored, err = w.User.CoreV1().PersistentVolumes().Create(ctx, o, metav1.CreateOptions{})
	case *corev1.PersistentVolumeClaim:
		stored, err = w.User.CoreV1().PersistentVolumeClaims(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
	case *storagev1.StorageClass:
		stored, err = w.User.StorageV1().StorageClasses().Create(ctx, o, metav1.CreateOptions{})
	default:
		w.Fatalf("create of %T", obj)
	}
	w.NoError(err)
	return stored.(T)
}

var (
	ctx           = context.Background()
	createOptions = metav1.CreateOptions{}
	updateOptions = metav1.UpdateOptions{}
)

// update changes a stored object.
func update[T metav1.Object](w *rig, stored T, change func(T)) T {
	w.Helper()
	var now metav1.Object
	var err error
	switch o := any(stored).(type) {
	case *corev1.PersistentVolume:
		o, err = w.User.CoreV1().PersistentVolumes().Get(ctx, o.Name, metav1.GetOptions{})
		w.NoError(err)
		change(any(o).(T))
		now, err = w.User.CoreV1().PersistentVolumes().Update(ctx, o, metav1.UpdateOptions{})
	case *corev1.PersistentVolumeClaim:
		o, err = w.User.CoreV1().PersistentVolumeClaims(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
		w.NoError(err)
		change(any(o).(T))
		now, err = w.User.CoreV1().PersistentVolumeClaims(o.Namespace).Update(ctx, o, metav1.UpdateOptions{})
	case *corev1.Node:
		o, err = w.User.CoreV1().Nodes().Get(ctx, o.Name, metav1.GetOptions{})
		w.NoError(err)
		change(any(o).(T))
		now, err = w.User.CoreV1().Nodes().Update(ctx, o, metav1.UpdateOptions{})
	default:
		w.Fatalf("update of %T", stored)
	}
	w.NoError(err)
	return now.(T)
}

// stored describes what the API server has: the claim of each volume, and the node of each claim.
func (w *rig) stored() string {
	var texts []string
	for _, obj := range w.Server.List("persistentvolumes") {
		if v := obj.(*corev1.PersistentVolume); v.Spec.ClaimRef != nil {
			texts = append(texts, v.Name+" for "+v.Spec.ClaimRef.Name)
		}
	}
	for _, obj := range w.Server.List("persistentvolumeclaims") {
		c := obj.(*corev1.PersistentVolumeClaim)
		if node, ok := c.Annotations[storagehelpers.AnnSelectedNode]; ok {
			texts = append(texts, c.Name+" on "+node)
		}
	}
	return strings.Join(texts, ", ")
}

// A placed is a pod on its way to node n1.
type placed struct {
	*rig
	pod   *corev1.Pod
	node  *corev1.Node
	cycle *framework.Cycle
}

// place creates a pod with claims, node n1 and volumes, has the caches see them, and reserves what find
// returns.
func place(t *testing.T, claims claimList, volumes volumeList, args Args) *placed {
	t.Helper()
	w := &placed{rig: newRig(t, args)}
	for _, class := range classes() {
		create(w.rig, class.(*storagev1.StorageClass))
	}
	asked := pod("p")
	for _, c := range claims {
		asked.Spec.Volumes = append(asked.Spec.Volumes, pod("", c.Name).Spec.Volumes...)
		create(w.rig, c.DeepCopy())
	}
	w.node = create(w.rig, node("n1"))
	w.pod = create(w.rig, asked)
	for _, v := range volumes {
		v = v.DeepCopy()
		if ref := v.Spec.ClaimRef; ref != nil {
			ref.UID, ref.ResourceVersion = w.claim(ref.Name).UID, ""
		}
		stored := create(w.rig, v)
		stored.Status.Phase = corev1.VolumeAvailable
		_, err := w.User.CoreV1().PersistentVolumes().UpdateStatus(ctx, stored, metav1.UpdateOptions{})
		w.NoError(err)
	}
	w.Run()
	found, cycle := w.find(w.pod, w.node)
	if len(found.Reasons) > 0 || found.Err != "" {
		t.Fatalf("not found: %+v", found)
	}
	if status := w.plugin.Reserve(cycle, "n1"); status != nil {
		t.Fatalf("Reserve: %+v", status)
	}
	w.cycle = cycle
	return w
}

func (w *rig) claim(name string) *corev1.PersistentVolumeClaim {
	w.Helper()
	c, err := w.User.CoreV1().PersistentVolumeClaims("ns").Get(ctx, name, metav1.GetOptions{})
	w.NoError(err)
	return c
}

func (w *rig) volume(name string) *corev1.PersistentVolume {
	w.Helper()
	v, err := w.User.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
	w.NoError(err)
	return v
}

// preBind calls PreBind. After an error it calls Unreserve, as the scheduler does.
func (w *placed) preBind() (done bool, message string) {
	w.Helper()
	done, status := w.plugin.PreBind(ctx, w.cycle, "n1")
	if status != nil {
		w.plugin.Unreserve(w.cycle, "n1")
	}
	return done, status.Message()
}

// wantPreBind calls PreBind and compares its answer.
func (w *placed) wantPreBind(done bool, message string) {
	w.Helper()
	if got, text := w.preBind(); got != done || text != message {
		w.Errorf("PreBind: %v, %q; want %v, %q", got, text, done, message)
	}
}

// bindTo completes the binding of a claim, as the PersistentVolume controller does.
func (w *rig) bindTo(claim, volume string) {
	w.Helper()
	update(w, w.claim(claim), func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = volume
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, storagehelpers.AnnBindCompleted, "yes")
	})
}

func conflict(resource, name string) string {
	return `Operation cannot be fulfilled on ` + resource + ` "` + name +
		`": the object has been modified; please apply your changes to the latest version and try again`
}

// touch is a change that makes a version.
func touch(meta metav1.Object) {
	meta.SetAnnotations(map[string]string{"touched": "yes"})
}

func TestBindAPIUpdate(t *testing.T) {
	second := claim("second", "1Gi", provided)
	for name, test := range map[string]struct {
		claims   claimList
		volumes  volumeList
		meantime func(w *placed) // after Reserve; the caches do not see it
		err      string
		stored   string
		assumed  string // after Unreserve, before the caches have seen the writes
	}{
		"one-binding": {
			claims: claimList{small}, volumes: volumeList{on1}, stored: "v1a for small", assumed: "v1a for small",
		},
		"two-bindings": {
			claims: claimList{small, large}, volumes: volumeList{on1, on1b},
			stored: "v1a for small, v1b for large", assumed: "v1a for small, v1b for large",
		},
		"api-already-updated": {
			claims: claimList{small}, volumes: volumeList{volume("v1a", "n1", "5G", waits, of(small))}, stored: "v1a for small",
		},
		"api-update-failed": {
			claims: claimList{small, large}, volumes: volumeList{on1, on1b},
			meantime: func(w *placed) { update(w.rig, w.volume("v1b"), func(v *corev1.PersistentVolume) { touch(v) }) },
			err:      conflict("persistentvolumes", "v1b"), stored: "v1a for small", assumed: "v1a for small",
		},
		"one-provisioned-pvc": {
			claims: claimList{toProvide}, stored: "provided on n1", assumed: "provided on n1",
		},
		"provision-api-update-failed": {
			claims:   claimList{toProvide, second},
			meantime: func(w *placed) { update(w.rig, w.claim("second"), func(c *corev1.PersistentVolumeClaim) { touch(c) }) },
			err:      conflict("persistentvolumeclaims", "second"), stored: "provided on n1", assumed: "provided on n1",
		},
		"binding-succeed, provision-api-update-failed": {
			claims: claimList{small, toProvide, second}, volumes: volumeList{on1},
			meantime: func(w *placed) { update(w.rig, w.claim("second"), func(c *corev1.PersistentVolumeClaim) { touch(c) }) },
			err:      conflict("persistentvolumeclaims", "second"),
			stored:   "v1a for small, provided on n1", assumed: "v1a for small, provided on n1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := place(t, test.claims, test.volumes, Args{})
			if test.meantime != nil {
				test.meantime(w)
			}
			w.wantPreBind(false, test.err)
			w.plugin.Unreserve(w.cycle, "n1")
			if got := w.rig.stored(); got != test.stored {
				t.Errorf("stored: %q, want %q", got, test.stored)
			}
			if got := w.assumedOn(); got != test.assumed {
				t.Errorf("assumed: %q, want %q", got, test.assumed)
			}
			w.Run()
			if got := w.assumedOn(); got != "" {
				t.Errorf("assumed after the caches have seen the writes: %q", got)
			}
			if p := w.plugin; len(p.volumes.assumed)+len(p.volumes.written)+len(p.claims.assumed)+len(p.claims.written)+len(p.waiters) != 0 {
				t.Errorf("left: %v, %v, %v", p.volumes, p.claims, p.waiters)
			}
		})
	}
}

// A pod that is not on its way any more writes nothing more.
func TestUnreserveDuringAWrite(t *testing.T) {
	w := place(t, claimList{small, toProvide}, volumeList{on1}, Args{})
	s := stateOf(w.cycle)
	s.reserved = false // as if the task were suspended in the write
	w.wantPreBind(false, "binding volumes: context canceled")
	if got := w.rig.stored(); got != "v1a for small" {
		t.Errorf("stored: %q", got)
	}
}

func TestPreBindPreFlight(t *testing.T) {
	for name, test := range map[string]struct {
		state  *state
		flight framework.Code
		done   bool
		err    string
	}{
		"all bound": {&state{allBound: true}, framework.Skip, true, ""},
		"volume to be bound": {
			&state{byNode: map[string]*podVolumes{"n1": {provisions: []provision{{claim: toProvide}}}}}, framework.Success,
			false, `persistentvolumeclaims "ns/provided" not found`,
		},
		"error, state is nil":   {nil, framework.Skip, true, ""},
		"error, node not found": {&state{byNode: map[string]*podVolumes{"n2": {}}}, framework.Error, false, `no pod volume found for node "n1"`},
	} {
		t.Run(name, func(t *testing.T) {
			w := &placed{rig: newRig(t, Args{})}
			w.cycle = w.cycleOf(pod("p"), nil)
			w.cycle.Write(Name, test.state)
			status := w.plugin.PreBindPreFlight(w.cycle, "n1")
			if code := status.CodeOf(); code != test.flight {
				t.Errorf("PreBindPreFlight: %v, want %v", code, test.flight)
			}
			w.wantPreBind(test.done, test.err)
		})
	}
}

func TestCheckBindings(t *testing.T) {
	for name, test := range checkRows {
		t.Run(name, func(t *testing.T) {
			w := newRig(t, Args{})
			host := node("n1")
			if test.node != nil {
				host = test.node
			}
			w.cached(pod("p"), host)
			if test.csiNode != nil {
				w.cached(test.csiNode)
			}
			for _, v := range test.volumes {
				w.cached(v)
			}
			for _, c := range test.claims {
				w.cached(c)
			}
			bound, err := w.plugin.checkBindings(pod("p"), "n1", &test.of)
			text := ""
			if err != nil {
				text = err.Error()
			}
			if bound != test.bound || text != test.err {
				t.Errorf("%v, %q; want %v, %q", bound, text, test.bound, test.err)
			}
		})
	}
}

// A checkRow is a row of upstream's tables of checkBindings.
type checkRow struct {
	of      podVolumes // as written
	volumes volumeList // in the cache
	claims  claimList  // in the cache
	node    *corev1.Node
	csiNode *storagev1.CSINode
	bound   bool
	err     string
}

var (
	wroteV1a      = podVolumes{bindings: []binding{{claim: small, volume: volume("v1a", "n1", "5G", waits, of(small))}}}
	wroteProvided = podVolumes{provisions: []provision{{claim: claim("provided", "1Gi", provided, forNode("n1"))}}}
	smallBound    = claim("small", "1G", waits, boundTo("v1a"))
	v1aOfSmall    = volume("v1a", "n1", "5G", waits, of(small))
)

var checkRows = map[string]checkRow{
	"nothing-to-bind": {bound: true},
	"binding-bound":   {of: wroteV1a, volumes: volumeList{v1aOfSmall}, claims: claimList{smallBound}, bound: true},
	"binding-prebound": {
		of: wroteV1a, volumes: volumeList{v1aOfSmall}, claims: claimList{claim("small", "1G", waits, named("v1a"))},
	},
	"binding-unbound": {of: wroteV1a, volumes: volumeList{v1aOfSmall}, claims: claimList{small}},
	"binding-pvc-not-exists": {
		of: wroteV1a, volumes: volumeList{v1aOfSmall}, err: `failed to check binding: persistentvolumeclaims "ns/small" not found`,
	},
	"binding-pv-not-exists": {
		of: wroteV1a, claims: claimList{smallBound}, err: `failed to check binding: persistentvolumes "v1a" not found`,
	},
	"binding-claimref-nil": {
		of: wroteV1a, volumes: volumeList{volume("v1a", "n1", "5G", waits, volumeVersion("2"))}, claims: claimList{smallBound},
		err: `ClaimRef got reset for pv "v1a"`,
	},
	"binding-claimref-uid-empty": {
		of: wroteV1a, volumes: volumeList{volume("v1a", "n1", "5G", waits, of(small), volumeVersion("2"), func(v *corev1.PersistentVolume) {
			v.Spec.ClaimRef.UID = ""
		})},
		claims: claimList{smallBound}, err: `ClaimRef got reset for pv "v1a"`,
	},
	"binding-one-bound,one-unbound": {
		of: podVolumes{bindings: []binding{
			{claim: small, volume: v1aOfSmall}, {claim: large, volume: volume("v1b", "n1", "10G", waits, of(large))},
		}},
		volumes: volumeList{v1aOfSmall, volume("v1b", "n1", "10G", waits, of(large))}, claims: claimList{smallBound, large},
	},
	"provisioning-pvc-bound": {
		of: wroteProvided, volumes: volumeList{volume("v", "n1", "1Gi", provided)},
		claims: claimList{claim("provided", "1Gi", provided, forNode("n1"), boundTo("v"))}, bound: true,
	},
	"provisioning-pvc-unbound": {of: wroteProvided, claims: claimList{claim("provided", "1Gi", provided, forNode("n1"))}},
	"provisioning-pvc-not-exists": {
		of: wroteProvided, err: `failed to check provisioning pvc: persistentvolumeclaims "ns/provided" not found`,
	},
	"provisioning-pvc-annotations-nil": {
		of: wroteProvided, claims: claimList{claim("provided", "1Gi", provided, claimVersion("2"))},
		err: `selectedNode annotation reset for PVC "provided"`,
	},
	"provisioning-pvc-selected-node-dropped": {
		of: wroteProvided, claims: claimList{claim("provided", "1Gi", provided, claimVersion("2"), func(c *corev1.PersistentVolumeClaim) { touch(c) })},
		err: `provisioning failed for PVC "provided"`,
	},
	"provisioning-pvc-selected-node-wrong-node": {
		of: wroteProvided, claims: claimList{claim("provided", "1Gi", provided, claimVersion("2"), forNode("n2"))},
		err: `provisioning failed for PVC "provided"`,
	},
	"binding-bound-provisioning-unbound": {
		of:      podVolumes{bindings: wroteV1a.bindings, provisions: wroteProvided.provisions},
		volumes: volumeList{v1aOfSmall}, claims: claimList{smallBound, claim("provided", "1Gi", provided, forNode("n1"))},
	},
	"tolerate-provisioning-pvc-bound-pv-not-found": {
		of: wroteProvided, claims: claimList{claim("provided", "1Gi", provided, forNode("n1"), boundTo("v"))},
	},

	// upstream's TestCheckBindingsWithCSIMigration
	"migration: provisioning-pvc-bound": {
		of:      wroteProvided,
		volumes: volumeList{volume("v", "", "1Gi", provided, migratable)},
		claims:  claimList{claim("provided", "1Gi", provided, forNode("n1"), boundTo("v"))},
		node:    node("n1", zoneLabel, "east-1"), csiNode: csiNode("n1", "kubernetes.io/gce-pd"), bound: true,
	},
	"migration: binding-node-pv-same-zone": {
		of: wroteMigrated, volumes: volumeList{migrated}, claims: claimList{small},
		node: node("n1", zoneLabel, "east-1"), csiNode: csiNode("n1", "kubernetes.io/gce-pd"),
	},
	"migration: binding-without-csinode": {
		of: wroteMigrated, volumes: volumeList{migrated}, claims: claimList{small}, node: node("n1", zoneLabel, "east-1"),
	},
	"migration: binding-non-migrated-plugin": {
		of: wroteMigrated, volumes: volumeList{migrated}, claims: claimList{small},
		node: node("n1", zoneLabel, "east-1"), csiNode: csiNode("n1", ""),
	},
	"migration: binding-node-pv-in-different-zones": {
		of: wroteMigrated, volumes: volumeList{migrated}, claims: claimList{small},
		node: node("n1", zoneLabel, "east-2"), csiNode: csiNode("n1", "kubernetes.io/gce-pd"),
		err: `pv "m" node affinity doesn't match node "n1": no matching NodeSelectorTerms`,
	},
	"migration: binding-node-pv-different-zones-migration-off": {
		of: podVolumes{bindings: []binding{{claim: small, volume: rbd}}}, volumes: volumeList{rbd}, claims: claimList{small},
		node: node("n1", zoneLabel, "east-2"), csiNode: csiNode("n1", "kubernetes.io/gce-pd"),
	},

	// not in upstream's tables
	"the cache lacks the write of the volume": {
		of:      podVolumes{bindings: []binding{{claim: small, volume: volume("v1a", "n1", "5G", waits, of(small), volumeVersion("2"))}}},
		volumes: volumeList{on1}, claims: claimList{small},
	},
	"the cache lacks the write of the claim": {
		of:     podVolumes{provisions: []provision{{claim: claim("provided", "1Gi", provided, forNode("n1"), claimVersion("2"))}}},
		claims: claimList{toProvide},
	},
	"bound to another volume": {
		of: wroteV1a, volumes: volumeList{v1aOfSmall}, claims: claimList{claim("small", "1G", waits, boundTo("v1b"))},
		err: `pvc "ns/small" is bound to pv "v1b" instead of "v1a"`,
	},
	"the second claim has failed while the first is not bound": {
		of:      podVolumes{bindings: wroteV1a.bindings, provisions: wroteProvided.provisions},
		volumes: volumeList{v1aOfSmall}, claims: claimList{small, claim("provided", "1Gi", provided, claimVersion("2"), forNode("n2"))},
		err: `provisioning failed for PVC "provided"`,
	},
	"provisioned for another node": {
		of: wroteProvided, volumes: volumeList{volume("v", "n2", "1Gi", provided)},
		claims: claimList{claim("provided", "1Gi", provided, forNode("n1"), boundTo("v"))},
		err:    `pv "v" node affinity doesn't match node "n1": no matching NodeSelectorTerms`,
	},
}

var (
	migrated      = volume("m", "", "1G", waits, of(small), migratable)
	wroteMigrated = podVolumes{bindings: []binding{{claim: small, volume: migrated}}}
	rbd           = volume("r", "", "1G", waits, of(small), migratable, func(v *corev1.PersistentVolume) {
		v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDImage: "disk"}}
	})
)

func TestCheckBindingsNeedsNodeAndPod(t *testing.T) {
	w := newRig(t, Args{})
	check := func(want string) {
		t.Helper()
		if _, err := w.plugin.checkBindings(pod("p"), "n1", &podVolumes{}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	check(`failed to get node "n1": node "n1" not found`)
	w.cached(node("n1"))
	check(`pod does not exist any more: pod "p" not found`)
	another := pod("p")
	another.UID = "another"
	w.cached(another)
	check(`pod does not exist any more: pod "p" not found`)
}

func TestBindPodVolumes(t *testing.T) {
	for name, test := range map[string]struct {
		claims  claimList
		volumes volumeList
		before  func(w *placed) // PreBind is called; the caches do not see it
		first   string          // the error of the first call
		then    func(w *placed) // after the first call
		done    bool
		err     string // of the call after the pod is woken
	}{
		"binding-static-pv-succeeds-after-time": {
			claims: claimList{small}, volumes: volumeList{on1}, then: func(w *placed) { w.bindTo("small", "v1a") }, done: true,
		},
		"binding-dynamic-pv-succeeds-after-time": {
			claims: claimList{toProvide}, then: func(w *placed) {
				create(w.rig, volume("dynamic", "n1", "1Gi", provided, of(w.claim("provided"))))
				w.bindTo("provided", "dynamic")
			}, done: true,
		},
		"bound-by-pv-controller-before-bind": {
			claims: claimList{small}, volumes: volumeList{on1}, before: func(w *placed) {
				update(w.rig, w.volume("v1a"), func(v *corev1.PersistentVolume) { of(w.claim("small"))(v) })
				w.bindTo("small", "v1a")
			},
			first: conflict("persistentvolumes", "v1a"),
		},
		"pod-deleted-after-time": {
			claims: claimList{small}, volumes: volumeList{on1}, then: func(w *placed) {
				w.NoError(w.User.CoreV1().Pods("ns").Delete(ctx, "p", *metav1.NewDeleteOptions(0)))
			},
			err: `binding volumes: pod does not exist any more: pod "p" not found`,
		},
		"binding-times-out": {
			claims: claimList{small}, volumes: volumeList{on1},
			then: func(w *placed) { w.Host.SetTime(w.Host.Now().Add(DefaultBindTimeout)) },
			err:  "binding volumes: context deadline exceeded",
		},
		"binding-fails": {
			claims: claimList{large}, volumes: volumeList{on1b}, before: func(w *placed) {
				update(w.rig, w.volume("v1b"), func(v *corev1.PersistentVolume) { v.Finalizers = nil })
				w.NoError(w.User.CoreV1().PersistentVolumes().Delete(ctx, "v1b", metav1.DeleteOptions{}))
			},
			first: `persistentvolumes "v1b" not found`,
		},
		"check-fails": {
			claims: claimList{small}, volumes: volumeList{on1}, then: func(w *placed) {
				update(w.rig, w.claim("small"), func(c *corev1.PersistentVolumeClaim) { c.Finalizers = nil })
				w.NoError(w.User.CoreV1().PersistentVolumeClaims("ns").Delete(ctx, "small", metav1.DeleteOptions{}))
			},
			err: `binding volumes: failed to check binding: persistentvolumeclaims "ns/small" not found`,
		},
		"node-affinity-fails": {
			claims: claimList{small}, volumes: volumeList{on1}, then: func(w *placed) {
				update(w.rig, w.node, func(n *corev1.Node) { n.Labels = nil })
			},
			err: `binding volumes: pv "v1a" node affinity doesn't match node "n1": no matching NodeSelectorTerms`,
		},
		"node-affinity-fails-dynamic-provisioning": {
			claims: claimList{toProvide}, then: func(w *placed) {
				create(w.rig, volume("dynamic", "n2", "1Gi", provided, of(w.claim("provided"))))
				w.bindTo("provided", "dynamic")
			},
			err: `binding volumes: pv "dynamic" node affinity doesn't match node "n1": no matching NodeSelectorTerms`,
		},
		// not in upstream's table
		"the provisioner gives up": {
			claims: claimList{toProvide}, then: func(w *placed) {
				update(w.rig, w.claim("provided"), func(c *corev1.PersistentVolumeClaim) {
					delete(c.Annotations, storagehelpers.AnnSelectedNode)
				})
			},
			err: `binding volumes: selectedNode annotation reset for PVC "provided"`,
		},
		"the claim of the volume is reset": {
			claims: claimList{small}, volumes: volumeList{on1}, then: func(w *placed) {
				update(w.rig, w.volume("v1a"), func(v *corev1.PersistentVolume) { v.Spec.ClaimRef = nil })
			},
			err: `binding volumes: ClaimRef got reset for pv "v1a"`,
		},
		"the node is deleted": {
			claims: claimList{toProvide}, then: func(w *placed) {
				w.NoError(w.User.CoreV1().Nodes().Delete(ctx, "n1", metav1.DeleteOptions{}))
			},
			err: `binding volumes: failed to get node "n1": node "n1" not found`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := place(t, test.claims, test.volumes, Args{})
			if test.before != nil {
				test.before(w)
			}
			w.wantPreBind(false, test.first)
			w.Run()
			if test.first != "" {
				return
			}
			w.wantPreBind(false, "")
			w.woken = nil
			test.then(w)
			w.Run()
			if deleted := len(w.Server.List("pods")) == 0; (len(w.woken) == 0) != deleted {
				t.Fatalf("woken: %v, deleted: %v", w.woken, deleted)
			}
			w.wantPreBind(test.done, test.err)
			w.Host.SetTime(w.Host.Now().Add(2 * DefaultBindTimeout))
			w.woken = nil
			w.Run()
			if len(w.woken)+len(w.plugin.waiters) != 0 {
				t.Errorf("still waits: woken %v, waiters %v", w.woken, w.plugin.waiters)
			}
		})
	}
}

// A world comes to rest with a pod whose volume is never provisioned. If time passes, the pod fails, and
// each further attempt takes as long.
func TestBindTimeout(t *testing.T) {
	w := place(t, claimList{toProvide}, nil, Args{BindTimeout: time.Minute})
	for range 3 {
		began := w.Host.Now()
		w.wantPreBind(false, "")
		w.Run()
		if passed := w.Host.Now().Sub(began); passed != 0 {
			t.Fatalf("%s passed without a reason", passed)
		}
		w.Host.SetTime(began.Add(time.Minute - 1))
		w.woken = nil
		w.Run()
		w.wantPreBind(false, "")
		if len(w.woken) != 0 {
			t.Error("woken before the end")
		}
		w.Host.SetTime(began.Add(time.Minute))
		w.Run()
		if len(w.woken) != 1 {
			t.Errorf("woken: %v", w.woken)
		}
		w.wantPreBind(false, "binding volumes: context deadline exceeded")
		found, cycle := w.find(w.pod, w.node)
		if _, ok := found.Volumes["provided"]; !ok {
			t.Fatalf("again: %+v", found)
		}
		if status := w.plugin.Reserve(cycle, "n1"); status != nil {
			t.Fatal(status)
		}
		w.cycle = cycle
	}
}

// Two pods that share a claim write it once.
func TestSharedClaimIsWrittenOnce(t *testing.T) {
	w := place(t, claimList{toProvide}, nil, Args{})
	second := create(w.rig, pod("q", "provided"))
	w.Run()
	_, cycle := w.find(second, w.node)
	if status := w.plugin.Reserve(cycle, "n1"); status != nil {
		t.Fatal(status)
	}
	other := &placed{rig: w.rig, pod: second, node: w.node, cycle: cycle}
	w.wantPreBind(false, "")
	written := w.claim("provided").ResourceVersion
	other.wantPreBind(false, "")
	w.Run()
	if now := w.claim("provided").ResourceVersion; now != written {
		t.Errorf("written twice: %s, %s", written, now)
	}
	w.woken = nil
	create(w.rig, volume("dynamic", "n1", "1Gi", provided, of(w.claim("provided"))))
	w.bindTo("provided", "dynamic")
	w.Run()
	if got := strings.Join(w.woken, " "); got != "p q p q" {
		t.Errorf("woken: %s", got)
	}
	w.wantPreBind(true, "")
	other.wantPreBind(true, "")
}
