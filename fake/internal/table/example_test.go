package table_test

import (
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/internal/table"
	"github.com/volsim/volsim/sim"
)

// The cells that kubectl get pvc prints for a claim that is five minutes old.
func ExampleNew() {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	claims, _ := server.Resource("persistentvolumeclaims")
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data", CreationTimestamp: metav1.NewTime(sim.Epoch)},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "disk-1"},
		Status: corev1.PersistentVolumeClaimStatus{
			Phase: corev1.ClaimBound, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}
	created, err := table.New(claims, metav1.ListMeta{}, []fake.Object{claim}, sim.Epoch.Add(5*time.Minute),
		metav1.TableOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for i, column := range created.ColumnDefinitions {
		if cell := created.Rows[0].Cells[i]; cell != "" && column.Priority == 0 { // a priority is for -o wide
			fmt.Printf("%s: %v\n", column.Name, cell)
		}
	}
	// Output:
	// Name: data
	// Status: Bound
	// Volume: disk-1
	// Capacity: 1Gi
	// VolumeAttributesClass: <unset>
	// Age: 5m
}
