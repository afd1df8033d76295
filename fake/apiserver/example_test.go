package apiserver_test

import (
	"context"
	"fmt"
	"log"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/volsim/volsim/fake"
	"github.com/volsim/volsim/fake/apiserver"
	"github.com/volsim/volsim/sim"
)

// A server without a socket, used through client-go's own clientset.
func ExampleNewConfig() {
	server := fake.NewServer(fake.Config{Now: func() time.Time { return sim.Epoch }})
	client, err := kubernetes.NewForConfig(apiserver.NewConfig(server, sim.DirectCaller()))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	maps := client.CoreV1().ConfigMaps("default")
	created, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}},
		metav1.CreateOptions{})
	if err != nil {
		log.Fatal(err)
	}
	stale := created.DeepCopy()
	created.Data = map[string]string{"color": "red"}
	if _, err := maps.Update(ctx, created, metav1.UpdateOptions{}); err != nil {
		log.Fatal(err)
	}
	_, err = maps.Update(ctx, stale, metav1.UpdateOptions{})
	fmt.Println(err)
	// Output:
	// Operation cannot be fulfilled on configmaps "settings": the object has been modified; please apply your changes to the latest version and try again
}
