package framework

import "slices"

// ScaleScores brings scores, none of which is negative, to the range from MinScore to MaxScore: the highest
// becomes MaxScore. With reverse, the highest becomes MinScore, and zero MaxScore.
//
// Upstream: pkg/scheduler/framework/plugins/helper DefaultNormalizeScore (v1.36).
func ScaleScores(scores []int64, reverse bool) {
	if len(scores) == 0 {
		return
	}
	highest := max(slices.Max(scores), 0)
	for i, score := range scores {
		if highest > 0 {
			score = MaxScore * score / highest
		}
		if reverse {
			score = MaxScore - score
		}
		scores[i] = score
	}
}
