package informercache_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volsim/volsim/internal/informercache"
)

// The owner of an informer applies the changes.
func Example() {
	pods := informercache.New("pods")
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { fmt.Println("added", obj.(*corev1.Pod).Name) },
		DeleteFunc: func(obj any) { fmt.Println("deleted", obj.(*corev1.Pod).Name) },
	})
	fmt.Println(err, pods.HasSynced())

	pod := func(name string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	}
	pods.Replace([]any{pod("web"), pod("db")}, "7")   // the first list
	pods.Put("default/cron", pod("cron"), "8", true)  // an event of a watch
	pods.Remove("default/web", pod("web"), "9", true) // another one
	all, err := corelisters.NewPodLister(pods.GetIndexer()).List(labels.Everything())
	for _, p := range all {
		fmt.Println("seen:", p.Name) // in order
	}
	fmt.Println(err, pods.HasSynced(), pods.LastSyncResourceVersion())
	// Output:
	// <nil> false
	// added web
	// added db
	// added cron
	// deleted web
	// seen: cron
	// seen: db
	// <nil> true 9
}
