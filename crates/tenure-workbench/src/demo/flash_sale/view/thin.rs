//! Drops points of a line that would not be visible.

/// A point of a line: the time in seconds, and the value.
pub(super) type Point = (f64, f64);

/// Returns at most `most` of the points, in order: the first, the last and the extremes of each
/// group of neighbours.
pub(super) fn thin(points: &[Point], most: usize) -> Vec<Point> {
    if points.len() <= most {
        return points.to_vec();
    }
    let neighbours = points.len().div_ceil((most / KEPT).max(1));
    points.chunks(neighbours).flat_map(outline).collect()
}

/// Returns the first, the lowest, the highest and the last of some points, without duplicates, in
/// order.
fn outline(points: &[Point]) -> impl Iterator<Item = Point> + '_ {
    let by_value = |a: &usize, b: &usize| points[*a].1.total_cmp(&points[*b].1);
    let all = 0..points.len();
    let mut kept: Vec<usize> = [
        all.clone().next(),
        all.clone().min_by(by_value),
        all.clone().max_by(by_value),
        all.last(),
    ]
    .into_iter()
    .flatten()
    .collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|place| points[place])
}

/// How many points of each group stay.
const KEPT: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_as_they_are() {
        assert_eq!(thin(&[], 10), []);
        let points = [(0.0, 1.0), (1.0, 5.0), (2.0, 3.0)];
        assert_eq!(thin(&points, 3), points);
    }

    #[test]
    fn of_many_points_the_ends_and_the_extremes_stay() {
        let mut points: Vec<Point> = (0..20_000)
            .map(|n| (f64::from(n) / 1000.0, f64::from(20_000 - n)))
            .collect();
        points[7_123].1 = 90_000.0;
        points[7_124].1 = -5.0;
        let thinned = thin(&points, 1000);
        assert!((300..=1000).contains(&thinned.len()), "{}", thinned.len());
        for kept in [0, 7_123, 7_124, 19_999] {
            assert!(thinned.contains(&points[kept]), "{kept}");
        }
        assert!(thinned.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn points_of_one_moment_are_thinned_too() {
        let points: Vec<Point> = (0..5000).map(|n| (1.0, f64::from(n))).collect();
        let thinned = thin(&points, 100);
        assert!(thinned.len() <= 100, "{}", thinned.len());
        assert_eq!(thinned.last(), Some(&(1.0, 4999.0)));
    }
}
