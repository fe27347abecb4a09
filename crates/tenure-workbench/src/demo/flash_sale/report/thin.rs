//! A line of twenty thousand points looks like one of a thousand, if the right ones stay.

/// A place of a line: the time in seconds, and the value.
pub(super) type Point = (f64, f64);

/// Returns at most `most` of the points, in order: of each stretch of time the first, the last and the extremes.
pub(super) fn thin(points: &[Point], most: usize) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    if points.len() <= most {
        return points.to_vec();
    }
    let stretches = (most / KEPT).max(1);
    let width = (last.0 - first.0) / stretches as f64;
    let mut thinned = Vec::with_capacity(most);
    let mut rest = points;
    for stretch in 1..=stretches {
        let end = first.0 + width * stretch as f64;
        let inside = match stretch == stretches {
            true => rest.len(),
            false => rest.partition_point(|point| point.0 < end),
        };
        let (now, later) = rest.split_at(inside);
        thinned.extend(outline(now));
        rest = later;
    }
    thinned
}

/// The first, the lowest, the highest and the last of some points, each once, in order.
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

/// How many points of a stretch stay.
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
