//! From numbers to places on the paper, and the round numbers to write beside an axis.

/// Maps a range of values to a range of places; values outside are moved to its ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scale {
    from: f64,
    to: f64,
    start: f64,
    end: f64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    /// Each power of ten has the same room.
    Log,
}

impl Scale {
    /// Equal steps of the value are equal steps on the paper.
    pub(super) fn linear(values: (f64, f64), places: (f64, f64)) -> Self {
        // A range without width would have no middle.
        let to = match values.1 > values.0 {
            true => values.1,
            false => values.0 + 1.0,
        };
        Self {
            from: values.0,
            to,
            start: places.0,
            end: places.1,
            kind: Kind::Linear,
        }
    }

    /// Equal factors are equal steps on the paper; the range is widened to whole powers of ten.
    pub(super) fn log(values: (f64, f64), places: (f64, f64)) -> Self {
        let from = values.0.max(1.0).log10().floor();
        let to = values.1.max(1.0).log10().ceil().max(from + 1.0);
        Self {
            from,
            to,
            start: places.0,
            end: places.1,
            kind: Kind::Log,
        }
    }

    /// Returns the place of a value.
    pub(super) fn at(&self, value: f64) -> f64 {
        let value = match self.kind {
            Kind::Linear => value,
            Kind::Log => value.max(1.0).log10(),
        };
        let part = (value - self.from) / (self.to - self.from);
        self.start + part.clamp(0.0, 1.0) * (self.end - self.start)
    }

    /// Returns about as many round values as asked for, and at least one.
    pub(super) fn ticks(&self, about: u32) -> Vec<f64> {
        match self.kind {
            Kind::Linear => self.round_steps(about),
            Kind::Log => self.powers(about),
        }
    }

    /// Returns the range and its places as `from to start end`, and the kind, for the pointer to read back.
    pub(super) fn told(&self) -> String {
        let kind = match self.kind {
            Kind::Linear => "linear",
            Kind::Log => "log",
        };
        format!(
            "{kind} {} {} {} {}",
            self.from, self.to, self.start, self.end
        )
    }

    fn round_steps(&self, about: u32) -> Vec<f64> {
        let step = round_step((self.to - self.from) / f64::from(about.max(1)));
        let first = (self.from / step).ceil();
        let mut ticks = Vec::new();
        let mut number = first;
        // A small excess, because sums of tenths are not exact.
        while number * step <= self.to + step * 1e-9 {
            ticks.push(number * step);
            number += 1.0;
        }
        ticks
    }

    fn powers(&self, about: u32) -> Vec<f64> {
        let every = ((self.to - self.from) / f64::from(about.max(1)))
            .ceil()
            .max(1.0);
        let mut ticks = Vec::new();
        let mut power = self.from;
        while power <= self.to {
            ticks.push(10_f64.powf(power));
            power += every;
        }
        ticks
    }
}

/// Returns the smallest of 1, 2 and 5 times a power of ten that is not less than `least`.
pub(super) fn round_step(least: f64) -> f64 {
    if least <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let fits = factors
        .into_iter()
        .find(|factor| factor * power >= least * (1.0 - 1e-9));
    fits.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_to_their_places_and_not_beyond() {
        let scale = Scale::linear((0.0, 10.0), (100.0, 0.0));
        let places = [-5.0, 0.0, 2.5, 10.0, 11.0].map(|value| scale.at(value));
        assert_eq!(places, [100.0, 100.0, 75.0, 0.0, 0.0]);
        let scale = Scale::log((3.0, 700.0), (0.0, 300.0));
        let places = [0.0, 1.0, 10.0, 100.0, 1000.0].map(|value| scale.at(value));
        assert_eq!(places, [0.0, 0.0, 100.0, 200.0, 300.0]);
    }

    #[test]
    fn a_range_without_width_has_places_too() {
        for scale in [
            Scale::linear((0.0, 0.0), (0.0, 100.0)),
            Scale::log((0.0, 0.0), (0.0, 100.0)),
        ] {
            assert!(scale.at(0.0).is_finite());
            assert!(!scale.ticks(4).is_empty(), "{scale:?}");
        }
    }

    #[test]
    fn ticks_are_round_and_inside() {
        let ticks = |from, to| Scale::linear((from, to), (0.0, 1.0)).ticks(5);
        assert_eq!(
            ticks(0.0, 5000.0),
            [0.0, 1000.0, 2000.0, 3000.0, 4000.0, 5000.0]
        );
        assert_eq!(ticks(-320.0, 1000.0), [0.0, 500.0, 1000.0]);
        assert_eq!(ticks(0.0, 0.37).len(), 4);
        assert_eq!(
            ticks(0.0, 0.3).len(),
            4,
            "also the last, which is not exact"
        );
        let powers = Scale::log((20.0, 5e6), (0.0, 1.0)).ticks(4);
        assert_eq!(powers, [1e1, 1e3, 1e5, 1e7]);
    }

    #[test]
    fn steps_are_one_two_or_five_times_a_power_of_ten() {
        for (least, step) in [
            (0.03, 0.05),
            (0.1, 0.1),
            (1.1, 2.0),
            (6.0, 10.0),
            (0.0, 1.0),
        ] {
            assert!((round_step(least) - step).abs() < 1e-12, "{least}");
        }
    }
}
