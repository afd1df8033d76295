package volumemanager

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volsim/volsim/plugins"
)

// On a node with SELinux, a ReadWriteOncePod volume is mounted with the label of the pod's
// processes if its plugin supports it. Its files then need no relabelling. A mount has one label:
// pods that need another one wait until all pods with the volume have released it. The feature gate
// SELinuxMount extends this to all access modes; without it they have no label, and conflicts about
// them are ignored.
//
// A volume found on the disk has the label that its plugin recorded before it mounted it. As in
// upstream's CSI plugin, the mount itself is not inspected. A volume with the wrong label is
// unmounted before the next pod gets it.
//
// There is no SELinux behind this: labels are strings. There are no metrics.

// selinuxLabels is how a volume of a pod is labelled.
type selinuxLabels struct {
	label     string // "": no label
	mount     string // label to mount the volume with
	supported bool   // the plugin can mount the volume with a label
	exclusive bool   // all pods that have the volume must need the same label
}

// labelOf returns how a volume of a pod is labelled. It fails if the pod's containers need
// different labels.
//
// Upstream: pkg/volume/util GetMountSELinuxLabel, pkg/kubelet/volumemanager/cache getSELinuxLabel
// (v1.36).
func (m *Manager) labelOf(pod *corev1.Pod, outerName string, found resolved) (selinuxLabels, error) {
	var l selinuxLabels
	if !m.cfg.SELinux {
		return l, nil
	}
	if found.caps.SELinux != nil {
		var err error
		if l.supported, err = found.caps.SELinux.SupportsSELinuxContextMount(found.spec); err != nil {
			return selinuxLabels{}, err
		}
	}
	labels := labelsOf(pod, outerName)
	l.exclusive = m.mountsLabelled(found.spec)
	switch {
	case labels.Len() > 1 && !l.exclusive:
		return selinuxLabels{}, nil
	case labels.Len() > 1:
		return selinuxLabels{}, unusable("multiple SELinux labels found: %s", strings.Join(sets.List(labels), ","))
	case labels.Len() == 0 || !l.supported || relabelsFiles(pod):
		return l, nil
	}
	l.label = sets.List(labels)[0]
	if l.exclusive {
		l.mount = l.label
	}
	return l, nil
}

// relabelsFiles reports whether a pod wants its volumes' files relabelled.
func relabelsFiles(pod *corev1.Pod) bool {
	security := pod.Spec.SecurityContext
	return security != nil && security.SELinuxChangePolicy != nil &&
		*security.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive
}

// mountsLabelled reports whether a volume is mounted with a label, by its access modes.
//
// Upstream: pkg/volume/util VolumeSupportsSELinuxMount (v1.36).
func (m *Manager) mountsLabelled(spec *plugins.Spec) bool {
	pv := spec.PersistentVolume
	if pv == nil || m.cfg.SELinuxMount {
		return pv != nil
	}
	return len(pv.Spec.AccessModes) == 1 && pv.Spec.AccessModes[0] == corev1.ReadWriteOncePod
}

// labelsOf returns the labels of the containers of a pod that mount a volume. A container's label
// overrides the pod's.
//
// Upstream: pkg/volume/util GetPodVolumeNames (v1.36).
func labelsOf(pod *corev1.Pod, outerName string) sets.Set[string] {
	labels := sets.New[string]()
	look := func(security *corev1.SecurityContext, mounts []corev1.VolumeMount) {
		var options *corev1.SELinuxOptions
		if pod.Spec.SecurityContext != nil {
			options = pod.Spec.SecurityContext.SELinuxOptions
		}
		if security != nil && security.SELinuxOptions != nil {
			options = security.SELinuxOptions
		}
		for i := range mounts {
			if mounts[i].Name == outerName && options != nil {
				labels.Insert(fileLabel(options))
			}
		}
	}
	for i := range pod.Spec.InitContainers {
		look(pod.Spec.InitContainers[i].SecurityContext, pod.Spec.InitContainers[i].VolumeMounts)
	}
	for i := range pod.Spec.Containers {
		look(pod.Spec.Containers[i].SecurityContext, pod.Spec.Containers[i].VolumeMounts)
	}
	for i := range pod.Spec.EphemeralContainers {
		look(pod.Spec.EphemeralContainers[i].SecurityContext, pod.Spec.EphemeralContainers[i].VolumeMounts)
	}
	return labels
}

// fileLabel returns the label of the files that a process with the given options may use. Missing
// options are as on Fedora.
//
// Differs: without a level, upstream draws one for each volume; here it is constant.
//
// Upstream: pkg/volume/util SELinuxOptionsToFileLabel (v1.36).
func fileLabel(options *corev1.SELinuxOptions) string {
	fileType := options.Type
	if fileType == "" || fileType == "container_t" {
		fileType = "container_file_t"
	}
	return strings.Join([]string{
		cmp.Or(options.User, "system_u"), cmp.Or(options.Role, "object_r"), fileType,
		cmp.Or(options.Level, "s0:c998,c999"),
	}, ":")
}

// conflict returns an error if a pod cannot have a volume because another pod here has it with
// another label.
//
// Upstream: pkg/kubelet/volumemanager/cache AddPodToVolume (v1.36).
func (v *desiredVolume) conflict(l selinuxLabels, spec *plugins.Spec) error {
	if !l.supported || l.label == v.labelled.label || !l.exclusive {
		return nil
	}
	return unusable("conflicting SELinux labels of volume %s: %q and %q", spec.Name(), v.labelled.label, l.label)
}

// mislabelled reports whether the volume is mounted here with another label than the wanted one.
//
// Upstream: pkg/kubelet/volumemanager/cache PodExistsInVolume (v1.36).
func (v *actualVolume) mislabelled(wanted *desiredVolume) bool {
	return wanted != nil && v != nil && v.label != wanted.labelled.mount && (v.device != notMounted || len(v.pods) > 0)
}

// setLabel records the label with which the volume is being mounted, if nothing of it is mounted
// yet.
func (v *actualVolume) setLabel(wanted *desiredVolume) {
	if v.device == notMounted && len(v.pods) == 0 {
		v.label = wanted.labelled.mount
	}
}

// foundLabel records the label of a volume found on the disk. A pod whose mount did not come so far
// may have left no label.
//
// Upstream: pkg/kubelet/volumemanager/cache SetDeviceMountState (v1.36).
func (v *actualVolume) foundLabel(label string) {
	if label != "" && v.reconstructed {
		v.label = label
	}
}

// reportMislabelled reports to the pods that want a volume that they wait for the unmount of
// another label.
//
// Upstream: pkg/kubelet/volumemanager/cache newSELinuxMountMismatchError (v1.36).
func (m *Manager) reportMislabelled(v *desiredVolume) {
	why := fmt.Errorf("waiting for unmount of volume %q, because it is already mounted to a different pod with a different SELinux label", v.name)
	for _, uid := range v.podsAfter("") {
		if p := m.desired.pods[uid]; p != nil {
			p.failed(v.pods[uid].outerName, why)
			m.reportWait(p)
			m.cfg.PodChanged(uid)
		}
	}
}
