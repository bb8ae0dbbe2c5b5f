"""Reports as one offline HTML file, as HTML for notebooks, compared, and as a Perfetto trace."""
from .comparison import compare_reports
from .html import comparison_html, report_html, write_comparison, write_html
from .notebook import notebook_html
from .perfetto import perfetto_trace, write_perfetto

__all__ = ["compare_reports", "comparison_html", "notebook_html", "perfetto_trace", "report_html", "write_comparison",
           "write_html", "write_perfetto"]
