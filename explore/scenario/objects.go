package scenario

import (
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
)

// The objects that acts create.

// create creates the object of an act. It waits while an object of the same name is being deleted.
func (a Act) create(ctx context.Context, c *cluster.Cluster) error {
	resource, namespace := resources[a.kind], namespaceOf(a.kind)
	version := corev1.SchemeGroupVersion
	if a.kind == "class" {
		version = storagev1.SchemeGroupVersion
	}
	objects, _ := c.Server().Client(c.Host().ExternalCaller()).Resource(version.WithResource(resource), namespace)
	for {
		_, err := objects.Create(ctx, a.object(c.DriverName()), metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
		stored, exists := c.Server().Get(resource, namespace, a.name)
		if exists && stored.GetDeletionTimestamp() == nil {
			return err
		}
		if err := c.WaitForGone(ctx, resource, namespace, a.name); err != nil {
			return err
		}
	}
}

func (a Act) modes() []corev1.PersistentVolumeAccessMode {
	words, ok := a.option("modes")
	if !ok {
		return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	var modes []corev1.PersistentVolumeAccessMode
	for _, m := range list(words) {
		modes = append(modes, corev1.PersistentVolumeAccessMode(m))
	}
	return modes
}

// mode returns the volume mode, nil if the act has none.
func (a Act) mode() *corev1.PersistentVolumeMode {
	word, ok := a.option("mode")
	if !ok {
		return nil
	}
	mode := corev1.PersistentVolumeMode(word)
	return &mode
}

func (a Act) volume(driver string) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: a.name}}
	v.Spec.AccessModes, v.Spec.VolumeMode = a.modes(), a.mode()
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(a.args[0])}
	v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
	if policy, ok := a.option("reclaim"); ok {
		v.Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimPolicy(policy)
	}
	v.Spec.StorageClassName, _ = a.option("class")
	if claim, ok := a.option("for"); ok {
		v.Spec.ClaimRef = &corev1.ObjectReference{Namespace: metav1.NamespaceDefault, Name: claim}
	}
	handle, ok := a.option("handle")
	if !ok {
		handle = a.name
	}
	if node, ok := a.option("node"); ok {
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: onNode(node)}
	}
	if maker, ok := a.option("by"); ok {
		metav1.SetMetaDataAnnotation(&v.ObjectMeta, storagehelpers.AnnDynamicallyProvisioned, maker)
	}
	if path, ok := a.option("path"); ok {
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: path}
	} else {
		v.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}
	}
	return v
}

// onNode returns a selector for one node.
func onNode(name string) *corev1.NodeSelector {
	return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
		},
	}}}
}

func (a Act) claim() *corev1.PersistentVolumeClaim {
	claim := cluster.NewClaim(a.name, a.args[0])
	claim.Spec.AccessModes, claim.Spec.VolumeMode = a.modes(), a.mode()
	if class, ok := a.option("class"); ok {
		claim.Spec.StorageClassName = &class
	}
	claim.Spec.VolumeName, _ = a.option("volume")
	a.setSource(claim)
	return claim
}

func (a Act) class(driver string) *storagev1.StorageClass {
	class := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: a.name}, Provisioner: driver}
	if provisioner, ok := a.option("provisioner"); ok {
		class.Provisioner = provisioner
	}
	if binding, ok := a.option("binding"); ok {
		mode := storagev1.VolumeBindingMode(binding)
		class.VolumeBindingMode = &mode
	}
	if policy, ok := a.option("reclaim"); ok {
		reclaim := corev1.PersistentVolumeReclaimPolicy(policy)
		class.ReclaimPolicy = &reclaim
	}
	if is, _ := a.option("default"); is == "true" {
		class.Annotations = map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}
	}
	return class
}

// securityContext returns the security context of a pod, nil if the act has none.
func (a Act) securityContext() *corev1.PodSecurityContext {
	group, grouped := a.option("group")
	level, labelled := a.option("level")
	if !grouped && !labelled {
		return nil
	}
	security := &corev1.PodSecurityContext{}
	if grouped {
		gid, _ := strconv.ParseInt(group, 10, 64) // validated by check
		security.FSGroup = &gid
		if policy, ok := a.option("change"); ok {
			change := corev1.PodFSGroupChangePolicy(policy)
			security.FSGroupChangePolicy = &change
		}
	}
	if labelled {
		security.SELinuxOptions = &corev1.SELinuxOptions{Level: level}
	}
	return security
}

func (a Act) pod() *corev1.Pod {
	devices, _ := a.option("devices")
	pod := cluster.NewPod(a.name, append(slices.Clone(a.args), list(devices)...)...)
	pod.Spec.NodeName, _ = a.option("on")
	c := &pod.Spec.Containers[0]
	for _, mount := range c.VolumeMounts[len(a.args):] {
		c.VolumeDevices = append(c.VolumeDevices,
			corev1.VolumeDevice{Name: mount.Name, DevicePath: "/dev/" + mount.Name})
	}
	c.VolumeMounts = c.VolumeMounts[:len(a.args)]
	pod.Spec.SecurityContext = a.securityContext()
	if subPath, ok := a.option("sub"); ok {
		mountSubPath(c, subPath)
	}
	if reads, _ := a.option("reads"); reads == "true" {
		for i := range pod.Spec.Volumes {
			pod.Spec.Volumes[i].PersistentVolumeClaim.ReadOnly = true
		}
	}
	return pod
}

// mountSubPath makes a container mount a subpath of its volumes.
func mountSubPath(c *corev1.Container, subPath string) {
	for i := range c.VolumeMounts {
		if m := &c.VolumeMounts[i]; strings.Contains(subPath, "$") {
			m.SubPathExpr = subPath
		} else {
			m.SubPath = subPath
		}
	}
	field := &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.name"}
	c.Env = []corev1.EnvVar{{Name: "POD", ValueFrom: &corev1.EnvVarSource{FieldRef: field}}}
}
