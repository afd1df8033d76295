// Command 02-conflict shows where a conflict comes from, by hand. Two claims, one volume: the PersistentVolume controller
// is about to give the volume to claim red, and between its decision and its write an administrator reserves the volume
// for claim blue. The host is moved one strand at a time, in the order written here.
package main

import (
	"context"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/cluster"
	"github.com/volsim/volsim/events"
	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/pvcontroller"
	"github.com/volsim/volsim/sim"
	"github.com/volsim/volsim/trace"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	host := sim.NewStepped(sim.SteppedConfig{})
	defer host.Close()
	server := fake.NewServer(fake.Config{Now: host.Now})
	component := host.Component("pvcontroller")
	client := server.Client(component)
	pvcontroller.New(pvcontroller.Config{
		Component: component, Client: client, Informers: server.Informers(component),
		Recorder: events.New(events.Config{Component: component, Client: client, Source: pvcontroller.EventSource}),
	})

	// The world begins with an available volume and a controller at rest.
	admin := server.Client(host.Outside())
	if _, err := admin.CoreV1().PersistentVolumes().Create(ctx, disk(), metav1.CreateOptions{}); err != nil {
		return err
	}
	if err := host.Run(); err != nil {
		return err
	}
	seen, err := admin.CoreV1().PersistentVolumes().Get(ctx, "disk", metav1.GetOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "volume disk is %s at resourceVersion %s, and so it stands in the controller's cache\n", seen.Status.Phase, seen.ResourceVersion)

	// Claim red arrives; the controller decides, and is stopped before its write.
	if err := create(ctx, admin, "red"); err != nil {
		return err
	}
	for _, strand := range []string{"cache persistentvolumeclaims", "claims"} {
		if err := host.Move("pvcontroller/" + strand); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "claim red arrives; what can happen next:", host.Enabled())

	// The administrator, who read the same version, is faster.
	seen.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", Namespace: "default", Name: "blue"}
	reserved, err := admin.CoreV1().PersistentVolumes().Update(ctx, seen, metav1.UpdateOptions{})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the administrator writes from resourceVersion %s: disk is reserved for blue, at %s\n", seen.ResourceVersion, reserved.ResourceVersion)
	host.Log().Watch(func(r trace.Record) {
		if apierrors.IsConflict(r.Err) {
			fmt.Fprintf(out, "the controller writes from resourceVersion %s, while the server holds %s: %v\n", seen.ResourceVersion, reserved.ResourceVersion, apierrors.ReasonForError(r.Err))
		}
	})
	if err := host.Move("pvcontroller/claims"); err != nil {
		return err
	}

	// It decides anew from what it sees when its cache has caught up; nothing had to be undone.
	if err := create(ctx, admin, "blue"); err != nil {
		return err
	}
	if err := host.Run(); err != nil {
		return err
	}
	for _, name := range []string{"red", "blue"} {
		claim, err := admin.CoreV1().PersistentVolumeClaims("default").Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "claim %s is %s, with volume %q\n", name, claim.Status.Phase, claim.Spec.VolumeName)
	}
	return nil
}

// create makes a claim of no class, for which nothing is provisioned.
func create(ctx context.Context, client kubernetes.Interface, name string) error {
	claim, none := cluster.NewClaim(name, "1Gi"), ""
	claim.Spec.StorageClassName = &none
	_, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, claim, metav1.CreateOptions{})
	return err
}

func disk() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "disk"},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/tmp/disk"},
			},
		},
	}
}
