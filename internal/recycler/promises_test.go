package recycler_test

import (
	"context"
	"path"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/eventhandler"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/plugins/nodefs"
	"github.com/volsim/volsim/plugins/plugintest"
	"github.com/volsim/volsim/sim"
)

// kind is a plugin that recycles with a pod.
type kind struct {
	name   string
	plugin func(c *sim.Process, disk nodefs.FS, scrubber *recycler.Recycler) plugins.Plugin
	source func(dir string) corev1.PersistentVolumeSource
	makes  bool
}

var kinds = []kind{
	{
		name: "hostpath", makes: true,
		plugin: func(c *sim.Process, disk nodefs.FS, scrubber *recycler.Recycler) plugins.Plugin {
			return hostpath.New(hostpath.Config{
				Caller: c, Machine: hostpath.Machine{FS: disk, Root: "/"}, Recycler: scrubber, Provisioning: true,
			})
		},
		source: func(dir string) corev1.PersistentVolumeSource {
			return corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: dir}}
		},
	},
	{
		name: "nfs",
		plugin: func(_ *sim.Process, _ nodefs.FS, scrubber *recycler.Recycler) plugins.Plugin {
			return nfs.New(nfs.Config{Recycler: scrubber})
		},
		source: func(dir string) corev1.PersistentVolumeSource {
			return corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: dir}}
		},
	},
}

// place is an API server, a disk with the volumes /data/v and /data/w, a process with a plugin, and
// a node that runs its pods.
type place struct {
	kind
	host   sim.Host
	server *fake.Server
	disk   *nodefs.Memory
}

func newPlace(k kind, host sim.Host) (*plugintest.World, error) {
	p := &place{kind: k, host: host, server: fake.NewServer(fake.Config{Now: host.Now}), disk: nodefs.NewMemory("/")}
	p.node()
	w := &plugintest.World{Host: host, Resources: p.left}
	for _, name := range []string{"v", "w"} {
		if err := p.disk.MkdirAll("/data/" + name); err != nil {
			return nil, err
		}
		pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pv.Spec.PersistentVolumeSource = k.source("/data/" + name)
		w.Volumes = append(w.Volumes, &plugins.Spec{PersistentVolume: pv})
	}
	w.Recycle = &plugintest.RecyclableVolume{
		Volume: "v", Spec: w.Volumes[0],
		Fill:     func() error { return p.disk.WriteFile("/data/v/file", []byte("secret")) },
		Contents: func() ([]string, error) { return p.disk.ReadDir("/data/v") },
	}
	if k.makes {
		w.Provision = &plugins.ProvisionOptions{
			Name: "pvc-u1", ReclaimPolicy: corev1.PersistentVolumeReclaimDelete,
			Claim: &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c", UID: "u1"}},
		}
	}
	var err error
	w.Process, w.Plugin, err = p.process()
	if stepped, ok := host.(*sim.Stepped); ok {
		w.Restart = func() (*sim.Process, plugins.Plugin, error) {
			stepped.Crash(w.Process)
			p.server.RemoveComponent(w.Process)
			return p.process()
		}
	}
	return w, err
}

// process starts the process.
func (p *place) process() (*sim.Process, plugins.Plugin, error) {
	c := p.host.Process("controller")
	pods := p.server.Informers(c).Core().V1().Pods()
	pods.Informer()
	scrubber := recycler.New(recycler.Config{Process: c, Client: p.server.Client(c), Pods: pods})
	plugin := p.plugin(c, p.disk, scrubber)
	p.host.Start()
	return c, plugin, p.host.Wait(context.Background(), "the cache", pods.Informer().HasSynced)
}

// node runs the pods that have no scheduling gate.
func (p *place) node() {
	c := p.host.Process("node")
	client := p.server.Client(c)
	pods := sim.NewQueue[string](c, sim.QueueConfig{Name: "pods"})
	informer := p.server.Informers(c).Core().V1().Pods()
	eventhandler.Add(informer.Informer(), func(_, pod *corev1.Pod) { pods.Add(pod.Name) }, nil)
	pods.Work(func(ctx context.Context, name string) error {
		pod, err := informer.Lister().Pods("default").Get(name)
		if err != nil || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase == corev1.PodSucceeded {
			return nil
		}
		return p.scrub(ctx, client, pod)
	})
}

func (p *place) scrub(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod) error {
	done := pod.DeepCopy()
	done.Status.Phase = corev1.PodSucceeded
	_, source, _ := recycler.PodVolume(pod)
	dir := ""
	if source.HostPath != nil {
		dir = source.HostPath.Path
	} else {
		dir = source.NFS.Path
	}
	if err := recycler.Scrub(p.disk, dir); err != nil {
		done.Status.Phase, done.Status.Message = corev1.PodFailed, err.Error()
	}
	_, err := client.CoreV1().Pods("default").UpdateStatus(ctx, done, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// left returns the pods and the volumes that were created.
func (p *place) left() ([]string, error) {
	var lines []string
	for _, pod := range p.server.List("pods") {
		lines = append(lines, "pod "+pod.GetName())
	}
	volumes, err := hostpath.Machine{FS: p.disk, Root: "/"}.Volumes()
	for _, v := range volumes {
		lines = append(lines, "volume "+path.Base(v.Path))
	}
	return lines, err
}

func TestRecyclingPluginsContract(t *testing.T) {
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			for _, host := range []func() sim.Host{
				func() sim.Host { return sim.NewStepped(sim.SteppedConfig{StepsMax: 10_000}) },
				func() sim.Host { return sim.NewLive(sim.LiveConfig{}) },
			} {
				err := plugintest.Check(t.Context(), func() (*plugintest.World, error) { return newPlace(k, host()) })
				if err != nil {
					t.Errorf("%T:%s", host(), strings.ReplaceAll("\n"+err.Error(), "\n", "\n  "))
				}
			}
		})
	}
}
