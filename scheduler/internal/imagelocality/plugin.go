package imagelocality

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volsim/volsim/scheduler/internal/framework"
)

// Name is the name of the plugin.
const Name = "ImageLocality"

// The range of sizes that matters, in bytes: of all images together, and of each container.
const (
	sizeMin = 23 << 20
	sizeMax = 1000 << 20
)

// Plugin prefers nodes that have the images of a pod.
type Plugin struct{}

var _ framework.Scorer = (*Plugin)(nil)

// New returns the plugin.
func New(framework.Handle) *Plugin { return &Plugin{} }

// Name returns the name of the plugin.
func (*Plugin) Name() string { return Name }

// Events returns none: the plugin rejects no pod.
func (*Plugin) Events() []framework.EventHint { return nil }

const scoreKey = "PreScore" + Name

// scoreState is the images of a pod, and the share of the nodes that have each.
type scoreState struct {
	images []string // one for each container and volume
	shares map[string]float64
}

// PreScore finds out which nodes have the images. It skips the plugin if no node reports images.
//
// Differs: upstream gives each node the score 0 then.
func (*Plugin) PreScore(cycle *framework.Cycle, _ []*framework.NodeInfo) *framework.Status {
	nodes := cycle.Snapshot.Nodes()
	if !slices.ContainsFunc(nodes, func(n *framework.NodeInfo) bool { return len(n.Node.Status.Images) > 0 }) {
		return framework.SkipCycle
	}
	s := &scoreState{images: imagesOf(cycle.APIPod()), shares: map[string]float64{}}
	for _, image := range s.images {
		have := 0
		for _, node := range nodes {
			if _, ok := sizeOf(node.Node, image); ok {
				have++
			}
		}
		s.shares[image] = float64(have) / float64(len(nodes))
	}
	cycle.Write(scoreKey, s)
	return nil
}

// imagesOf returns the images of a pod's containers and volumes, each with its tag.
func imagesOf(pod *corev1.Pod) []string {
	var images []string
	for i := range pod.Spec.InitContainers {
		images = append(images, withTag(pod.Spec.InitContainers[i].Image))
	}
	for i := range pod.Spec.Containers {
		images = append(images, withTag(pod.Spec.Containers[i].Image))
	}
	for i := range pod.Spec.Volumes {
		if image := pod.Spec.Volumes[i].Image; image != nil {
			images = append(images, withTag(image.Reference))
		}
	}
	return images
}

// withTag returns the name of an image as nodes report it.
func withTag(image string) string {
	if strings.LastIndex(image, ":") <= strings.LastIndex(image, "/") { // a port is no tag
		return image + ":latest"
	}
	return image
}

func sizeOf(node *corev1.Node, image string) (bytes int64, ok bool) {
	for i := range node.Status.Images {
		if slices.Contains(node.Status.Images[i].Names, image) {
			return node.Status.Images[i].SizeBytes, true
		}
	}
	return 0, false
}

// Score returns a score by the size of the images that the node has. An image that few nodes have counts less, so
// that not all pods come to them.
func (*Plugin) Score(cycle *framework.Cycle, node *framework.NodeInfo) (int64, *framework.Status) {
	s := cycle.Read(scoreKey).(*scoreState)
	var sum int64
	for _, image := range s.images {
		if size, ok := sizeOf(node.Node, image); ok {
			sum += int64(float64(size) * s.shares[image])
		}
	}
	most := int64(sizeMax * (len(cycle.APIPod().Spec.InitContainers) + len(cycle.APIPod().Spec.Containers)))
	sum = max(min(sum, most), sizeMin)
	return framework.MaxScore * (sum - sizeMin) / (most - sizeMin), nil
}

// Normalize leaves the scores.
func (*Plugin) Normalize(*framework.Cycle, []int64) *framework.Status { return nil }
