package fake_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volsim/volsim/internal/testcheck"
)

// causes lists the causes of an Invalid error, the first line of each. It returns other errors as
// they are.
func causes(err error) []string {
	if err == nil {
		return nil
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		return []string{err.Error()}
	}
	var out []string
	for _, c := range status.Status().Details.Causes {
		line, _, _ := strings.Cut(c.Message, "\n")
		out = append(out, fmt.Sprintf("%s: %s", c.Field, line))
	}
	return out
}

type (
	claim  = corev1.PersistentVolumeClaim
	volume = corev1.PersistentVolume
)

func TestValidateClaim(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*claim)
		want   []string
	}{
		{"good", func(*claim) {}, nil},
		{"bad name", func(c *claim) { c.Name = "A" }, []string{
			`metadata.name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', ` +
				`and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is ` +
				`'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
		}},
		{"no name", func(c *claim) { c.Name = "" }, []string{"metadata.name: Required value: name or generateName is required"}},
		{"bad finalizer", func(c *claim) { c.Finalizers = []string{"mine"} }, []string{
			`metadata.finalizers[0]: Invalid value: "mine": name is neither a standard finalizer name nor is it fully qualified`,
		}},
		{
			"no access mode", func(c *claim) { c.Spec.AccessModes = nil },
			[]string{"spec.accessModes: Required value: at least 1 access mode is required"},
		},
		{"strange access mode", func(c *claim) { c.Spec.AccessModes[0] = "X" }, []string{
			`spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"`,
		}},
		{"ReadWriteOncePod with others", func(c *claim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes,
				corev1.ReadWriteOncePod)
		}, []string{
			"spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
		}},
		{"no size", func(c *claim) { c.Spec.Resources.Requests = nil }, []string{"spec.resources[storage]: Required value"}},
		{"size 0", func(c *claim) { c.Spec.Resources.Requests = storage("0") }, []string{
			`spec.resources[storage]: Invalid value: "0": must be greater than zero`,
		}},
		{"strange volumeMode", func(c *claim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeMode("X")) }, []string{
			`spec.volumeMode: Unsupported value: "X": supported values: "Block", "Filesystem"`,
		}},
		{"dataSource unlike dataSourceRef", func(c *claim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
			c.Spec.DataSourceRef = &corev1.TypedObjectReference{Kind: "PersistentVolumeClaim", Name: "y"}
		}, []string{`spec: Invalid value: {}: must match dataSourceRef`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.claims.Create(w.Context(), newClaim("a", test.change), metav1.CreateOptions{})
			expect(t, causes(err), test.want)
		})
	}
}

const claimSpecMsg = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"

func TestValidateClaimUpdate(t *testing.T) {
	const size = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"
	bound := func(c *claim) { c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, storage("1Gi") }
	for _, test := range []struct {
		name   string
		first  func(*claim) // at creation
		status func(*claim)
		change func(*claim)
		want   []string
	}{
		{"volumeName once", nil, nil, func(c *claim) { c.Spec.VolumeName = "v" }, nil},
		{
			"volumeName twice", func(c *claim) { c.Spec.VolumeName = "v" }, nil, func(c *claim) { c.Spec.VolumeName = "w" },
			[]string{claimSpecMsg},
		},
		{
			"class from nothing", func(c *claim) { c.Spec.StorageClassName = nil }, nil,
			func(c *claim) { c.Spec.StorageClassName = ptr.To("gold") }, nil,
		},
		{"class to another", nil, nil, func(c *claim) { c.Spec.StorageClassName = ptr.To("tin") }, []string{claimSpecMsg}},
		{"class to nil", nil, nil, func(c *claim) { c.Spec.StorageClassName = nil }, []string{claimSpecMsg}},
		{"class from the beta annotation", beta("gold"), nil, func(c *claim) { c.Spec.StorageClassName = ptr.To("gold") }, nil},
		{
			"class against the beta annotation", beta("gold"), nil, func(c *claim) { c.Spec.StorageClassName = ptr.To("tin") },
			[]string{claimSpecMsg},
		},
		{
			"beta annotation", beta("gold"), nil, func(c *claim) { c.Annotations[corev1.BetaStorageClassAnnotation] = "tin" },
			[]string{
				`metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "tin": field is immutable`,
			},
		},
		{
			"access modes", nil, nil,
			func(c *claim) { c.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadOnlyMany} },
			[]string{claimSpecMsg},
		},
		{"volumeMode", nil, nil, func(c *claim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, []string{
			claimSpecMsg, `volumeMode: Invalid value: "Block": field is immutable`,
		}},
		{
			"size of a pending claim", nil, nil, func(c *claim) { c.Spec.Resources.Requests = storage("2Gi") },
			[]string{claimSpecMsg},
		},
		{
			"size of a bound claim, down to its capacity", nil, bound,
			func(c *claim) { c.Spec.Resources.Requests = storage("500Mi") },
			[]string{size},
		},
		{
			"size of a bound claim, in other words", nil, bound, func(c *claim) { c.Spec.Resources.Requests = storage("1024Mi") },
			nil,
		},
		{
			"shrink while above the capacity", func(c *claim) { c.Spec.Resources.Requests = storage("5Gi") }, bound,
			func(c *claim) { c.Spec.Resources.Requests = storage("2Gi") }, nil,
		},
		{
			"shrink to the capacity", func(c *claim) { c.Spec.Resources.Requests = storage("5Gi") }, bound,
			func(c *claim) { c.Spec.Resources.Requests = storage("1Gi") },
			[]string{size},
		},
		{
			"attributes class of a bound claim", nil, bound, func(c *claim) { c.Spec.VolumeAttributesClassName = ptr.To("fast") },
			nil,
		},
		{
			"attributes class of a pending claim", nil, nil, func(c *claim) { c.Spec.VolumeAttributesClassName = ptr.To("fast") },
			[]string{claimSpecMsg},
		},
		{"an update may omit what was defaulted", nil, nil, func(c *claim) { c.Spec.VolumeMode = nil }, nil},
		{"dataSourceRef may be left open", func(c *claim) {
			c.Spec.DataSource = &corev1.TypedLocalObjectReference{Kind: "PersistentVolumeClaim", Name: "x"}
		}, nil, func(c *claim) { c.Spec.DataSourceRef = nil }, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			if test.first == nil {
				test.first = func(*claim) {}
			}
			c := w.create("a", test.first)
			if test.status != nil {
				test.status(c)
				c = w.updateStatus(c)
			}
			test.change(c)
			_, err := w.claims.Update(w.Context(), c, metav1.UpdateOptions{})
			expect(t, causes(err), test.want)
		})
	}
}

func beta(class string) func(*claim) {
	return func(c *claim) {
		c.Spec.StorageClassName = nil
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, corev1.BetaStorageClassAnnotation, class)
	}
}

func affinity(values ...string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: "zone", Operator: corev1.NodeSelectorOpIn,
			Values: values,
		}},
	}}}}
}

func TestValidateVolume(t *testing.T) {
	local := corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt"}}
	for _, test := range []struct {
		name   string
		change func(*volume)
		want   []string
	}{
		{"good", func(*volume) {}, nil},
		{"no access mode", func(v *volume) { v.Spec.AccessModes = nil }, []string{"spec.accessModes: Required value"}},
		{"no capacity", func(v *volume) { v.Spec.Capacity = nil }, []string{
			"spec.capacity: Required value", `spec.capacity: Unsupported value: null: supported values: "storage"`,
		}},
		{"capacity 0", func(v *volume) { v.Spec.Capacity = storage("0") }, []string{
			`spec.capacity[storage]: Invalid value: "0": must be greater than zero`,
		}},
		{"no source", func(v *volume) { v.Spec.CSI = nil }, []string{"spec: Required value: must specify a volume type"}},
		{"two sources", func(v *volume) { v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/x"} }, []string{
			"spec.csi: Forbidden: may not specify more than 1 volume type",
		}},
		{
			"csi without handle", func(v *volume) { v.Spec.CSI.VolumeHandle = "" },
			[]string{"spec.csi.volumeHandle: Required value"},
		},
		{"local", func(v *volume) { v.Spec.PersistentVolumeSource, v.Spec.NodeAffinity = local, affinity("a") }, nil},
		{"local without node affinity", func(v *volume) { v.Spec.PersistentVolumeSource = local }, []string{
			"spec.nodeAffinity: Required value: Local volume requires node affinity",
		}},
		{"node affinity without values", func(v *volume) { v.Spec.NodeAffinity = affinity() }, []string{
			"spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
		}},
		{"hostPath upwards", func(v *volume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/a/../b"}}
		}, []string{`spec.hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
		{"nfs", func(v *volume) {
			v.Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Path: "a"}}
		}, []string{"spec.nfs.server: Required value", `spec.nfs.path: Invalid value: "a": must be an absolute path`}},
		{"strange reclaim policy", func(v *volume) { v.Spec.PersistentVolumeReclaimPolicy = "X" }, []string{
			`spec.persistentVolumeReclaimPolicy: Unsupported value: "X": supported values: "Delete", "Recycle", "Retain"`,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.User.CoreV1().PersistentVolumes().Create(w.Context(), newVolume("v", test.change),
				metav1.CreateOptions{})
			expect(t, causes(err), test.want)
		})
	}
}

func TestValidateVolumeUpdate(t *testing.T) {
	for _, test := range []struct {
		name   string
		first  func(*volume)
		change func(*volume)
		want   []string
	}{
		{"claimRef, reclaim policy, capacity, mount options", nil, func(v *volume) {
			v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "default", Name: "a"}
			v.Spec.PersistentVolumeReclaimPolicy, v.Spec.Capacity = corev1.PersistentVolumeReclaimDelete, storage("5Gi")
			v.Spec.MountOptions = []string{"ro"}
		}, nil},
		{"source", nil, func(v *volume) { v.Spec.CSI.VolumeHandle = "other" }, []string{
			"spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation",
		}},
		{"expand secret", nil, func(v *volume) {
			v.Spec.CSI.ControllerExpandSecretRef = &corev1.SecretReference{Name: "s", Namespace: "default"}
		}, nil},
		{"volumeMode", nil, func(v *volume) { v.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }, []string{
			`volumeMode: Invalid value: "Block": field is immutable`,
		}},
		{"node affinity once", nil, func(v *volume) { v.Spec.NodeAffinity = affinity("a") }, nil},
		{"attributes class away", func(v *volume) { v.Spec.VolumeAttributesClassName = ptr.To("fast") }, func(v *volume) {
			v.Spec.VolumeAttributesClassName = nil
		}, []string{"spec.volumeAttributesClassName: Forbidden: update from non-nil value to nil is forbidden"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			volumes := w.User.CoreV1().PersistentVolumes()
			if test.first == nil {
				test.first = func(*volume) {}
			}
			v := testcheck.Must(volumes.Create(w.Context(), newVolume("v", test.first), metav1.CreateOptions{}))
			test.change(v)
			_, err := volumes.Update(w.Context(), v, metav1.UpdateOptions{})
			expect(t, causes(err), test.want)
		})
	}
	t.Run("node affinity twice", func(t *testing.T) {
		w := newWorld(t)
		volumes := w.User.CoreV1().PersistentVolumes()
		v := testcheck.Must(volumes.Create(w.Context(), newVolume("v", func(v *volume) { v.Spec.NodeAffinity = affinity("a") }),
			metav1.CreateOptions{}))
		v.Spec.NodeAffinity = affinity("b")
		_, err := volumes.Update(w.Context(), v, metav1.UpdateOptions{})
		expectError(t, err, apierrors.IsInvalid, "field is immutable, except for updating from beta label to GA")
	})
}

func TestValidatePod(t *testing.T) {
	type pod = corev1.Pod
	for _, test := range []struct {
		name   string
		change func(*pod)
		want   []string
	}{
		{"good", func(*pod) {}, nil},
		{"no containers", func(p *pod) { p.Spec.Containers = nil }, []string{"spec.containers: Required value"}},
		{"no image", func(p *pod) { p.Spec.Containers[0].Image = "" }, []string{"spec.containers[0].image: Required value"}},
		{"volumes of one name", func(p *pod) { p.Spec.Volumes = append(p.Spec.Volumes, p.Spec.Volumes[0]) }, []string{
			`spec.volumes[1].name: Duplicate value: "data"`,
		}},
		{"mount of no volume", func(p *pod) { p.Spec.Containers[0].VolumeMounts[0].Name = "other" }, []string{
			`spec.containers[0].volumeMounts[0].name: Not found: "other"`,
		}},
		{"device of an emptyDir", func(p *pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{}
			p.Spec.Containers[0].VolumeMounts = nil
			p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: "/dev/x"}}
		}, []string{`spec.containers[0].volumeDevices[0].name: Invalid value: "data": can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			_, err := w.User.CoreV1().Pods("default").Create(w.Context(), newPod("p", test.change), metav1.CreateOptions{})
			expect(t, causes(err), test.want)
		})
	}
}

func TestValidatePodUpdate(t *testing.T) {
	type pod = corev1.Pod
	for _, test := range []struct {
		name   string
		change func(*pod)
		want   []string
	}{
		{"image, deadline, toleration", func(p *pod) {
			p.Spec.Containers[0].Image, p.Spec.ActiveDeadlineSeconds = "other", ptr.To(int64(9))
			p.Spec.Tolerations = []corev1.Toleration{{Key: "k"}}
		}, nil},
		{"node", on("n"), []string{"spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`," +
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations)," +
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"}},
		{
			"containers", func(p *pod) { p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "d", Image: "x"}) },
			[]string{
				"spec.containers: Forbidden: pod updates may not add or remove containers",
			},
		},
		{"gate", func(p *pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, []string{
			"spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t)
			pods := w.User.CoreV1().Pods("default")
			p := testcheck.Must(pods.Create(w.Context(), newPod("p"), metav1.CreateOptions{}))
			test.change(p)
			p, err := pods.Update(w.Context(), p, metav1.UpdateOptions{})
			expect(t, causes(err), test.want)
			if err == nil {
				expect(t, p.Generation, int64(2))
			}
		})
	}
}

func TestValidateStorage(t *testing.T) {
	w := newWorld(t)
	group := w.User.StorageV1()
	class := testcheck.Must(group.StorageClasses().Create(w.Context(), newClass("gold"),
		metav1.CreateOptions{}))
	expect(t, []string{string(*class.ReclaimPolicy), string(*class.VolumeBindingMode)}, []string{"Delete", "Immediate"})
	class.AllowVolumeExpansion, class.MountOptions = ptr.To(true), []string{"ro"}
	class = testcheck.Must(group.StorageClasses().Update(w.Context(), class, metav1.UpdateOptions{}))
	class.Provisioner, class.Parameters = "other", map[string]string{"a": "b"}
	class.ReclaimPolicy, class.VolumeBindingMode = ptr.To(corev1.PersistentVolumeReclaimRetain), ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)
	_, err := group.StorageClasses().Update(w.Context(), class, metav1.UpdateOptions{})
	expect(t, causes(err), []string{
		`parameters: Invalid value: {"a":"b"}: field is immutable`, `provisioner: Invalid value: "other": field is immutable`,
		`reclaimPolicy: Invalid value: "Retain": field is immutable`, `volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable`,
	})

	_, err = group.VolumeAttachments().Create(w.Context(), &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec:       storagev1.VolumeAttachmentSpec{NodeName: "n"},
	}, metav1.CreateOptions{})
	expect(t, causes(err), []string{
		"spec.attacher: Required value", "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
	})
	a := testcheck.Must(group.VolumeAttachments().Create(w.Context(), newAttachment("va"),
		metav1.CreateOptions{}))
	a.Spec.NodeName = "other"
	_, err = group.VolumeAttachments().Update(w.Context(), a, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsInvalid, "field is immutable")

	d := testcheck.Must(group.CSIDrivers().Create(w.Context(),
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{}))
	expect(t, d.Spec, storagev1.CSIDriverSpec{
		AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(false), StorageCapacity: ptr.To(false), RequiresRepublish: ptr.To(false),
		SELinuxMount: ptr.To(false), FSGroupPolicy: ptr.To(storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy),
		VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
	})
	d.Spec.PodInfoOnMount = ptr.To(true)
	d = testcheck.Must(group.CSIDrivers().Update(w.Context(), d, metav1.UpdateOptions{}))
	expect(t, d.Generation, int64(1))
	d.Spec.AttachRequired = ptr.To(false)
	_, err = group.CSIDrivers().Update(w.Context(), d, metav1.UpdateOptions{})
	expect(t, causes(err), []string{"spec.attachedRequired: Invalid value: false: field is immutable"})

	n := testcheck.Must(group.CSINodes().Create(w.Context(), &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec:       storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: "d", NodeID: "1"}}},
	}, metav1.CreateOptions{}))
	n.Spec.Drivers[0].Allocatable = &storagev1.VolumeNodeResources{Count: ptr.To(int32(5))}
	n = testcheck.Must(group.CSINodes().Update(w.Context(), n, metav1.UpdateOptions{}))
	n.Spec.Drivers[0].NodeID = "2"
	_, err = group.CSINodes().Update(w.Context(), n, metav1.UpdateOptions{})
	expectError(t, err, apierrors.IsInvalid, "spec.drivers: Invalid value")
}

func newClass(name string, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "csi.example.com"}
	for _, f := range change {
		f(c)
	}
	return c
}
