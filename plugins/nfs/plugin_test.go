package nfs_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/internal/recycler"
	"github.com/volsim/volsim/plugins"
	"github.com/volsim/volsim/plugins/hostpath"
	"github.com/volsim/volsim/plugins/nfs"
	"github.com/volsim/volsim/sim"
)

func volume(source corev1.PersistentVolumeSource) *corev1.PersistentVolume {
	v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}}
	v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("11Gi")}
	v.Spec.PersistentVolumeSource = source
	return v
}

// Both recycling plugins are compared.
func TestRecyclerPodsOfPlugins(t *testing.T) {
	tests := []struct {
		name     string
		source   corev1.PersistentVolumeSource
		want     corev1.VolumeSource
		deadline time.Duration
		without  string // the error for another volume
	}{
		{
			nfs.Name,
			corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/v", ReadOnly: true}},
			corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "files", Path: "/v"}},
			330 * time.Second, "spec.PersistentVolumeSource.NFS is nil",
		},
		{
			hostpath.Name,
			corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v"}},
			corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/v", Type: new(corev1.HostPathType)}},
			330 * time.Second, "spec.PersistentVolume.Spec.HostPath is nil",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			host := sim.NewStepped(sim.SteppedConfig{StepsMax: 1000})
			defer host.Close()
			server := fake.NewServer(fake.Config{Now: host.Now})
			process := host.Process("controller")
			pods := server.Informers(process).Core().V1().Pods()
			pods.Informer()
			scrubber := recycler.New(recycler.Config{Process: process, Client: server.Client(process), Pods: pods})
			var manager plugins.Manager
			for _, p := range []plugins.Plugin{nfs.New(nfs.Config{Recycler: scrubber}), hostpath.New(hostpath.Config{Recycler: scrubber})} {
				if err := manager.Register(p); err != nil {
					t.Fatal(err)
				}
			}
			spec := &plugins.Spec{PersistentVolume: volume(tt.source)}
			plugin, err := manager.FindRecyclableBySpec(spec)
			if err != nil || plugin.Name() != tt.name {
				t.Fatalf("found %v, %v", plugin.Plugin, err)
			}
			other := &plugins.Spec{PersistentVolume: &corev1.PersistentVolume{}}
			if err := plugin.Recycler.Recycle(t.Context(),
				plugins.RecycleOptions{Volume: "w", Spec: other}); err == nil || err.Error() != tt.without {
				t.Errorf("got error %v, want %q", err, tt.without)
			}
			process.Spawn("recycle", func(ctx context.Context) {
				_ = plugin.Recycler.Recycle(ctx, plugins.RecycleOptions{Volume: "v", Spec: spec}) // the pod never runs
			})
			if err := host.Run(); err != nil {
				t.Fatal(err)
			}
			obj, there := server.Get("pods", "default", "recycler-for-v")
			if !there {
				t.Fatal("there is no pod")
			}
			pod := obj.(*corev1.Pod)
			if diff := cmp.Diff(tt.want, pod.Spec.Volumes[0].VolumeSource); diff != "" {
				t.Errorf("source (-want +got):\n%s", diff)
			}
			if got := time.Duration(*pod.Spec.ActiveDeadlineSeconds) * time.Second; got != tt.deadline {
				t.Errorf("deadline %v, want %v", got, tt.deadline)
			}
		})
	}
}

func TestMinimumDeadline(t *testing.T) {
	small := volume(corev1.PersistentVolumeSource{})
	small.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("1Gi")
	if got := recycler.Deadline(small, nfs.RecycleMin, nfs.RecyclePerGiB); got != 5*time.Minute {
		t.Errorf("deadline %v", got)
	}
}

func TestCanSupport(t *testing.T) {
	p := nfs.New(nfs.Config{})
	source := &corev1.NFSVolumeSource{Server: "files", Path: "/v"}
	tests := []struct {
		name string
		spec plugins.Spec
		want string // the volume's name; "": not supported
	}{
		{
			"a volume of a pod",
			plugins.Spec{Volume: &corev1.Volume{VolumeSource: corev1.VolumeSource{NFS: source}}},
			"files//v",
		},
		{
			"a PersistentVolume",
			plugins.Spec{PersistentVolume: volume(corev1.PersistentVolumeSource{NFS: source})},
			"files//v",
		},
		{"another volume of a pod", plugins.Spec{Volume: &corev1.Volume{}}, ""},
		{"another PersistentVolume", plugins.Spec{PersistentVolume: &corev1.PersistentVolume{}}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			name, err := p.VolumeName(&tt.spec)
			if got := p.CanSupport(&tt.spec); got != (tt.want != "") || got != (err == nil) || name != tt.want {
				t.Errorf("CanSupport = %v, VolumeName = %q, %v; want name %q", got, name, err, tt.want)
			}
		})
	}
}
