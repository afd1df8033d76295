package explore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	storagehelpers "k8s.io/component-helpers/storage/volume"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/explore"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
)

var exits = explore.Config{Strategy: explore.Restarts}

// pluginMutants are defects of in-tree plugins, which create, delete and recycle volumes for the
// PersistentVolume controller.
var pluginMutants = []mutant{
	{
		name: "a plugin deletes the directory of a stale version of the volume", rule: "I8",
		scenario: directories + `
ends: differ
user alice
  create volume disk 1Gi path=/tmp/disk reclaim=Delete for=data
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
  set volume disk reclaim=Retain
`,
		between: client("pvcontroller", answerVolumes),
		config:  holds, within: 80,
	},
	{
		name: "a plugin deletes another volume", rule: "I8",
		scenario: directories + `
user alice
  create volume kept 1Gi path=/tmp/kept for=other
  create claim other 1Gi class=
  create volume disk 1Gi path=/tmp/disk reclaim=Delete for=data
  create claim data 1Gi class=
  wait claim other Bound
  wait claim data Bound
  delete claim data
`,
		between: plugin(func(p *brokenPlugin) {
			p.delete = func(ctx context.Context, spec *plugins.Spec) error {
				v := spec.PersistentVolume.DeepCopy()
				v.Spec.HostPath.Path = "/tmp/kept"
				return p.Deleter.Delete(ctx, &plugins.Spec{PersistentVolume: v})
			}
		}),
		config: holds, within: 1,
	},
	{
		name: "a create with a lost answer counts as failed, and the data is deleted", rule: "I8",
		scenario: directories + "faults: lost(pvcontroller, 1)\n" + makesDirectory,
		between:  deleteUnlessCreated,
		config:   faults, within: 12,
	},
	{
		name: "a volume is recycled again after another controller recycled it and it was bound", rule: "I8",
		scenario: `
nodes: 1
components: pvcontroller, pvcprotection, pvprotection, scheduler, kubelet
ends: differ
user alice
  create volume disk 1Gi path=/tmp/disk reclaim=Recycle
  create claim data 1Gi class=
  wait claim data Bound
  let replicate pvcontroller
  delete claim data
  create claim other 1Gi class=
  wait claim other Bound
`,
		between: updates("pvcontroller", "status", func(_ *fake.Clientset, v *corev1.PersistentVolume, send send[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
			if strings.HasPrefix(v.Status.Message, "Recycling by ") {
				v.ResourceVersion = "" // unconditional, whatever the volume's state
			}
			return send(v)
		}),
		config: explore.Config{Strategy: explore.PCT, Depth: 3}, within: 204,
	},
	{
		name: "a plugin's failed deletion counts as success", rule: "I9",
		scenario: directories + "faults: driver Internal(Delete, 1)\n" + `
user alice
  create volume disk 1Gi path=/tmp/disk reclaim=Delete for=data
  create claim data 1Gi class=
  wait claim data Bound
  delete claim data
`,
		between: plugin(func(p *brokenPlugin) {
			p.delete = func(ctx context.Context, spec *plugins.Spec) error {
				_ = p.Deleter.Delete(ctx, spec)
				return nil
			}
		}),
		config: faults, within: 4,
	},
	{
		name: "a plugin creates another directory at each retry", rule: "I10",
		scenario: directories + makesDirectory,
		between:  makesAnother,
		config:   exits, within: 12,
	},
	{
		name: "a hostPath volume is named after its claim's name instead of its UID", rule: "I10",
		scenario: directories + makesDirectory,
		between: client("pvcontroller", func(own *fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				v, ok := r.Body.(*corev1.PersistentVolume)
				if !ok || r.Verb != "create" {
					return serve()
				}
				v = v.DeepCopy()
				v.Name = "pvc-" + v.Spec.ClaimRef.Name
				return own.CoreV1().PersistentVolumes().Create(context.Background(), v, metav1.CreateOptions{})
			}
		}),
		config: holds, within: 1,
	},
	{
		name: "an uncertain result of a plugin counts as a final error", rule: "I11",
		scenario: directories + "faults: driver-lost DeadlineExceeded(Provision, 1)\n" + makesDirectory +
			"  delete claim data\n",
		between: plugin(func(p *brokenPlugin) {
			p.provision = func(ctx context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
				v, err := p.Provisioner.Provision(ctx, opts)
				if err != nil {
					err = errors.New(err.Error())
				}
				return v, err
			}
		}),
		config: faults, within: 8,
	},
	{
		name: "a volume's finalizer is removed before its directory is deleted",
		rule: "I12", history: "kubernetes#109330",
		scenario: directories + makesDirectory + "  wait claim data Bound\n  delete claim data\n",
		between:  client("pvcontroller", finalizerFirst),
		config:   holds, within: 1,
	},
	{
		name: "a hostPath volume has no finalizer", rule: "I12", history: "kubernetes#109330",
		scenario: directories + makesDirectory + "  wait claim data Bound\n  delete claim data\n",
		extra:    careless,
		between:  client("pvcontroller", neverKept),
		config:   holds, within: 100,
	},
	{
		name: "the migrated-to annotation is written at each sync", rule: "I14",
		scenario: directories + `
user alice
  create volume disk 1Gi by=kubernetes.io/aws-ebs reclaim=Delete for=data
  create claim data 1Gi class=
`,
		between: updates("pvcontroller", "", func(_ *fake.Clientset, v *corev1.PersistentVolume, send send[*corev1.PersistentVolume]) (*corev1.PersistentVolume, error) {
			written, err := send(v)
			if err != nil || v.Annotations[storagehelpers.AnnMigratedTo] == "" {
				return written, err
			}
			v.ResourceVersion = ""
			return send(v)
		}),
		config: holds, within: 1,
	},
	{
		name: "a plugin reports a directory that it did not create", rule: "I11",
		scenario: directories + makesDirectory,
		between: plugin(func(p *brokenPlugin) {
			p.provision = func(ctx context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
				v, err := p.Provisioner.Provision(ctx, opts)
				if err == nil {
					v.Spec.HostPath.Path += "-elsewhere"
				}
				return v, err
			}
		}),
		config: holds, within: 1,
	},
	{
		name: "a released volume counts as deleted", rule: "L2",
		scenario: directories + makesDirectory + "  wait claim data Bound\n  delete claim data\n",
		between:  client("pvcontroller", goneOnce),
		config:   holds, within: 1,
	},
}

// Pieces of scenarios.
const (
	directories    = "components: pvcontroller, pvcprotection, pvprotection\n"
	makesDirectory = `
user alice
  create class dirs provisioner=kubernetes.io/host-path
  create claim data 1Gi class=dirs
`
)

// brokenPlugin is the hostPath plugin with optional replacements of its calls.
type brokenPlugin struct {
	plugins.Plugin
	plugins.Provisioner
	plugins.Deleter
	plugins.Recycler
	provision func(ctx context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error)
	delete    func(ctx context.Context, spec *plugins.Spec) error
}

// Provision calls the replacement if there is one.
func (p *brokenPlugin) Provision(ctx context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
	if p.provision != nil {
		return p.provision(ctx, opts)
	}
	return p.Provisioner.Provision(ctx, opts)
}

// Delete calls the replacement if there is one.
func (p *brokenPlugin) Delete(ctx context.Context, spec *plugins.Spec) error {
	if p.delete != nil {
		return p.delete(ctx, spec)
	}
	return p.Deleter.Delete(ctx, spec)
}

// plugin intercepts the hostPath plugin. It calls mutate each time a process of the controller
// starts.
func plugin(mutate func(p *brokenPlugin)) func() cluster.Interceptors {
	return func() cluster.Interceptors {
		return cluster.Interceptors{Plugin: func(own plugins.Plugin) plugins.Plugin {
			if own.Name() != hostpath.Name {
				return own
			}
			broken := &brokenPlugin{
				Plugin: own, Provisioner: own.(plugins.Provisioner), Deleter: own.(plugins.Deleter),
				Recycler: own.(plugins.Recycler),
			}
			mutate(broken)
			return broken
		}}
	}
}

// makesAnother creates a directory with another name at each call, as upstream's plugin does.
func makesAnother() cluster.Interceptors {
	var server *fake.Server // of this world
	made := 0
	between := plugin(func(p *brokenPlugin) {
		p.provision = func(ctx context.Context, opts plugins.ProvisionOptions) (*corev1.PersistentVolume, error) {
			if made > 0 {
				opts.Claim = opts.Claim.DeepCopy()
				opts.Claim.UID += types.UID(fmt.Sprintf("-%d", made))
			}
			v, err := p.Provisioner.Provision(ctx, opts)
			made++
			return v, err
		}
	})()
	between.Client = func(_ string, own *fake.Clientset) *fake.Clientset {
		if own.Server() != server {
			server, made = own.Server(), 0
		}
		return own
	}
	return between
}

// answerVolumes answers the first get of a Released volume with the version in which it became
// Released.
func answerVolumes(*fake.Clientset) fake.InterceptorFunc {
	released := map[string]runtime.Object{}
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		if r.Resource.Resource != "persistentvolumes" {
			return serve()
		}
		if obj, known := released[r.Name]; known && r.Verb == "get" {
			delete(released, r.Name)
			return obj.DeepCopyObject(), nil
		}
		obj, err := serve()
		if v, is := obj.(*corev1.PersistentVolume); is && err == nil && v.Status.Phase == corev1.VolumeReleased {
			released[v.Name] = v
		}
		return obj, err
	}
}

// deleteUnlessCreated deletes the created directory if the answer to the creation of its
// PersistentVolume is lost.
func deleteUnlessCreated() cluster.Interceptors {
	var deleter plugins.Deleter
	return cluster.Interceptors{
		Plugin: func(own plugins.Plugin) plugins.Plugin {
			if own.Name() == hostpath.Name {
				deleter = own.(plugins.Deleter)
			}
			return own
		},
		Client: client("pvcontroller", func(*fake.Clientset) fake.InterceptorFunc {
			return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
				obj, err := serve()
				if v, is := r.Body.(*corev1.PersistentVolume); is && r.Verb == "create" && apierrors.IsTimeout(err) {
					err = errors.Join(err, deleter.Delete(context.Background(), &plugins.Spec{PersistentVolume: v}))
				}
				return obj, err
			}
		})().Client,
	}
}

// finalizerFirst removes the finalizer of a released volume when the volume is read.
func finalizerFirst(own *fake.Clientset) fake.InterceptorFunc {
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		obj, err := serve()
		v, is := obj.(*corev1.PersistentVolume)
		if !is || err != nil || r.Verb != "get" || v.Status.Phase != corev1.VolumeReleased ||
			!slices.Contains(v.Finalizers, inTreeFinalizer) {
			return obj, err
		}
		v = v.DeepCopy()
		v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == inTreeFinalizer })
		return own.CoreV1().PersistentVolumes().Update(context.Background(), v, metav1.UpdateOptions{})
	}
}

const inTreeFinalizer = storagehelpers.PVDeletionInTreeProtectionFinalizer

// neverKept writes volumes without the controller's finalizer.
func neverKept(own *fake.Clientset) fake.InterceptorFunc {
	ctx := context.Background()
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		v, is := r.Body.(*corev1.PersistentVolume)
		if !is || r.Subresource != "" || !slices.Contains(v.Finalizers, inTreeFinalizer) {
			return serve()
		}
		v = v.DeepCopy()
		v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == inTreeFinalizer })
		if r.Verb == "create" {
			return own.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{})
		}
		stored, err := own.CoreV1().PersistentVolumes().Get(ctx, v.Name, metav1.GetOptions{})
		if err != nil || slices.Equal(stored.Finalizers, v.Finalizers) {
			return stored, err
		}
		return own.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{})
	}
}

// goneOnce answers every get of a Released volume after the first with NotFound.
func goneOnce(*fake.Clientset) fake.InterceptorFunc {
	asked := map[types.UID]bool{}
	return func(r fake.Request, serve func() (runtime.Object, error)) (runtime.Object, error) {
		obj, err := serve()
		v, is := obj.(*corev1.PersistentVolume)
		if !is || err != nil || r.Verb != "get" ||
			v.Status.Phase != corev1.VolumeReleased && v.Status.Phase != corev1.VolumeFailed {
			return obj, err
		}
		if asked[v.UID] {
			return nil, apierrors.NewNotFound(r.Resource.GroupResource(), r.Name)
		}
		asked[v.UID] = true
		return obj, err
	}
}
