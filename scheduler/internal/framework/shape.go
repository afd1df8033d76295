package framework

import (
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/volsim/volsim/internal/schedulerconfig"
)

// A Shape is a function that ranks nodes by how much of something is in use. It is linear between points,
// and constant before the first and after the last.
type Shape []ShapePoint

// A ShapePoint is the score of a utilization in percent.
type ShapePoint struct{ Utilization, Score int64 }

// NewShape returns the function of a configuration, which has at least one point.
func NewShape(points []configv1.UtilizationShapePoint) Shape {
	s := make(Shape, len(points))
	for i, p := range points {
		s[i] = ShapePoint{int64(p.Utilization), int64(p.Score) * MaxScore / schedulerconfig.ShapeScoreMax}
	}
	return s
}

// At returns the score of a utilization.
//
// Upstream: plugins/helper BuildBrokenLinearFunction (v1.36).
func (s Shape) At(utilization int64) int64 {
	for i, p := range s {
		if utilization > p.Utilization {
			continue
		}
		if i == 0 {
			return p.Score
		}
		before := s[i-1]
		return before.Score + (p.Score-before.Score)*(utilization-before.Utilization)/(p.Utilization-before.Utilization)
	}
	return s[len(s)-1].Score
}
