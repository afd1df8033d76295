package pvcontroller_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/events"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/internal/testcheck"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/sim/trace"
)

// controlHostPath adds the controller with the hostPath plugin, and a runner of its pods, on one
// machine. before is called just before each of the controller's requests takes effect; wrap wraps
// the plugin.
func (w *world) controlHostPath(provisioning bool, before func(trace.Action),
	wrap func(*hostpath.Plugin) plugins.Plugin,
) hostpath.Machine {
	machine := hostpath.Machine{FS: nodefs.NewMemory("/"), Root: "/"}
	component := w.Host.Process("pvcontroller")
	client := w.Server.Client(beforeCall{component, before})
	informers := w.Server.Informers(component)
	var manager plugins.Manager
	err := manager.Register(wrap(hostpath.New(hostpath.Config{
		Caller: component, Machine: machine, Provisioning: provisioning,
		Recycler: recycler.New(recycler.Config{Process: component, Client: client, Pods: informers.Core().V1().Pods()}),
	})))
	if err != nil {
		w.Fatal(err)
	}
	pvcontroller.New(pvcontroller.Config{
		Process: component, Client: client, Informers: informers, Plugins: &manager,
		Recorder: events.New(events.Config{Process: component, Client: client, Source: pvcontroller.EventSource}),
	})
	w.runPods(machine)
	return machine
}

func plain(p *hostpath.Plugin) plugins.Plugin { return p }

func quietly(trace.Action) {}

// runPods runs recycler pods that can be scheduled.
func (w *world) runPods(machine hostpath.Machine) {
	component := w.Host.Process("kubelet")
	client := w.Server.Client(component)
	pods := w.Server.Informers(component).Core().V1().Pods()
	queue := sim.NewQueue[string](component, sim.QueueConfig{Name: "pods"})
	eventhandler.Add(pods.Informer(), func(_, pod *corev1.Pod) { queue.Add(pod.Name) }, nil)
	queue.Work(func(ctx context.Context, name string) error {
		pod, err := pods.Lister().Pods("default").Get(name)
		if err != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase != corev1.PodPending {
			return nil //nolint:nilerr // deleted
		}
		_, source, ok := recycler.PodVolume(pod)
		if !ok {
			return nil
		}
		pod = pod.DeepCopy()
		pod.Status.Phase = corev1.PodSucceeded
		if recycler.Scrub(machine.FS, source.HostPath.Path) != nil {
			pod.Status.Phase = corev1.PodFailed
		}
		_, err = client.CoreV1().Pods("default").UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		return err
	})
}

func TestHostPathVolumeIsCreatedAndDeleted(t *testing.T) {
	w := newWorld(t, nil)
	machine := w.controlHostPath(true, quietly, plain)
	w.class("scratch", hostpath.Name, storagev1.VolumeBindingImmediate, false)
	claim := w.claim("c", "1Gi", ofClass("scratch"))
	w.Run()
	uid := string(claim.UID)
	w.wantState("pvc-"+uid+" Bound for c by-controller",
		"c Bound to pvc-"+uid+" 1Gi of scratch by-controller completed")
	w.wantVolumes(machine, hostpath.Volume{Name: "pvc-" + uid, Path: "/tmp/hostpath_pv/" + uid})
	testcheck.NoError(t, machine.FS.WriteFile("/tmp/hostpath_pv/"+uid+"/file", []byte("hello")))
	w.deleteClaim("c")
	w.Run()
	w.wantVolumes(machine)
	w.editVolume("pvc-"+uid, func(v *corev1.PersistentVolume) { v.Finalizers = nil }) // as pv-protection does
	w.Run()
	w.wantState("")
	w.wantEvents("c Normal ProvisioningSucceeded: Successfully provisioned volume pvc-" + uid +
		" using kubernetes.io/host-path")
}

func (w *world) wantVolumes(machine hostpath.Machine, want ...hostpath.Volume) {
	w.Helper()
	got := testcheck.Must(machine.Volumes())
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("volumes of the machine (-want +got):\n%s", diff)
	}
}

func TestHostPathVolumesAreNotCreatedUnlessAllowed(t *testing.T) {
	w := newWorld(t, nil)
	machine := w.controlHostPath(false, quietly, plain)
	w.class("scratch", hostpath.Name, storagev1.VolumeBindingImmediate, false)
	w.claim("c", "1Gi", ofClass("scratch"))
	w.Run()
	w.wantState("c Pending of scratch")
	w.wantVolumes(machine)
	w.wantEvents(`c Warning ProvisioningFailed: Failed to create provisioner: provisioning in volume plugin "kubernetes.io/host-path" is disabled`)
}

// directory sets the source of a volume to a directory.
func directory(path string, policy corev1.PersistentVolumeReclaimPolicy) volumeOption {
	return func(v *corev1.PersistentVolume) {
		v.Spec.CSI, v.Spec.HostPath = nil, &corev1.HostPathVolumeSource{Path: path}
		v.Spec.PersistentVolumeReclaimPolicy = policy
	}
}

func TestRetainedDirectoryStays(t *testing.T) {
	w := newWorld(t, nil)
	machine := w.controlHostPath(true, quietly, plain)
	testcheck.NoError(t, machine.FS.MkdirAll("/data/tmp/x"))
	claim := w.claim("c", "1Gi")
	w.volume("v", "1Gi", directory("/data/tmp/x", corev1.PersistentVolumeReclaimDelete), reservedFor(claim))
	w.Run()
	w.deleteClaim("c")
	w.Run()
	w.wantState("v Failed for c")
	w.wantEvents("v Warning VolumeFailedDelete: host_path deleter only supports /tmp/.+ but received provided /data/tmp/x")
	if there := testcheck.Must(machine.FS.Exists("/data/tmp/x")); !there {
		t.Error("the directory was deleted")
	}
}

func TestHostPathVolumeIsRecycledForTheNextClaim(t *testing.T) {
	w := newWorld(t, nil)
	machine := w.controlHostPath(true, quietly, plain)
	testcheck.NoError(t, machine.FS.MkdirAll("/data/v/sub"))
	testcheck.NoError(t, machine.FS.WriteFile("/data/v/file", []byte("of c")))
	w.volume("v", "1Gi", directory("/data/v", corev1.PersistentVolumeReclaimRecycle))
	w.claim("c", "1Gi")
	w.Run()
	w.wantState("v Bound for c by-controller", "c Bound to v 1Gi by-controller completed")
	w.deleteClaim("c")
	w.Run()
	w.wantState("v Available")
	w.claim("d", "1Gi")
	w.Run()
	w.wantState("v Bound for d by-controller", "d Bound to v 1Gi by-controller completed")
	if names := testcheck.Must(machine.FS.ReadDir("/data/v")); len(names) > 0 {
		t.Errorf("content of d: %q", names)
	}
	w.wantEvents("v Normal VolumeRecycled: Volume recycled")
	if pods := w.Server.List("pods"); len(pods) > 0 {
		t.Errorf("remaining pods: %v", pods)
	}
}

// hasty is the plugin with upstream's behaviour: it starts recycling immediately.
type hasty struct{ *hostpath.Plugin }

func (h hasty) Recycle(ctx context.Context, opts plugins.RecycleOptions) error {
	opts.Acquire = nil
	return h.Plugin.Recycle(ctx, opts)
}

// A controller sees a Released volume and creates its pod late. Meanwhile another one has recycled
// the volume and bound it to the next claim, and a user of that has written a file.
func TestSlowRecyclerDoesNotScrubTheNextClaim(t *testing.T) {
	tests := []struct {
		name   string
		wrap   func(*hostpath.Plugin) plugins.Plugin
		stays  bool
		events []string
	}{
		{"ours", plain, true, nil},
		{
			"upstream's", func(p *hostpath.Plugin) plugins.Plugin { return hasty{p} }, false,
			[]string{"v Normal VolumeRecycled: Volume recycled"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, nil)
			var machine hostpath.Machine
			next := w.claim("d", "1Gi", naming("v"))
			bind := func(a trace.Action) {
				if a.Verb != "create" || !strings.HasPrefix(a.Object, "pods/") ||
					w.claimNow("d").Status.Phase == corev1.ClaimBound {
					return
				}
				w.editVolume("v", reservedFor(next))
				volume := testcheck.Must(w.User.CoreV1().PersistentVolumes().Get(ctx, "v", metav1.GetOptions{}))
				volume.Status.Phase = corev1.VolumeBound
				testcheck.Must(w.User.CoreV1().PersistentVolumes().UpdateStatus(ctx, volume, metav1.UpdateOptions{}))
				claim := w.claimNow("d").DeepCopy()
				claim.Status.Phase = corev1.ClaimBound
				testcheck.Must(w.User.CoreV1().PersistentVolumeClaims("default").UpdateStatus(ctx,
					claim, metav1.UpdateOptions{}))
				testcheck.NoError(t, machine.FS.WriteFile("/data/v/file", []byte("of d")))
			}
			machine = w.controlHostPath(true, bind, tt.wrap)
			testcheck.NoError(t, machine.FS.MkdirAll("/data/v"))
			first := w.claim("c", "1Gi", naming("v"))
			w.volume("v", "1Gi", directory("/data/v", corev1.PersistentVolumeReclaimRecycle), reservedFor(first))
			w.Run()
			w.deleteClaim("c")
			w.Run()
			if got := testcheck.Must(machine.FS.Exists("/data/v/file")); got != tt.stays {
				t.Errorf("the file of the next claim exists: %v, want %v", got, tt.stays)
			}
			waited := `d Warning FailedBinding: volume "v" already bound to a different claim.` // before
			w.wantEvents(append([]string{waited}, tt.events...)...)
		})
	}
}
